"""The resources that a shard handles.  Pure."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from sharder.core.names import GroupResource

Handled: TypeAlias = Mapping[GroupResource, Sequence[GroupResource]]
"""The main resources that a shard reconciles, and the resources of the children of each."""


def parse_resource(text: str) -> GroupResource:
    """Parse the name of a resource, such as `secrets` or `deployments.apps`."""
    resource, _, group = text.partition(".")
    return GroupResource(group, resource)


def children_of(handled: Handled) -> Sequence[GroupResource]:
    """Return the resources of children, each once."""
    return tuple(dict.fromkeys(child for owns in handled.values() for child in owns))


def resources_of(handled: Handled) -> Sequence[GroupResource]:
    """Return all resources, each once."""
    return (*handled, *children_of(handled))

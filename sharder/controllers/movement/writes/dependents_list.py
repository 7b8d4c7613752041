"""List the dependents of objects that are handed over."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from typing import NamedTuple

from sharder.controllers.permissions import naming_the_rule
from sharder.controllers.scope import MAX_NAMESPACES
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import NotFound
from sharder.core.names import GroupResource, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.ports import Objects
from sharder.runtime.task_pool import batch

UNKNOWN = ShardName("")
"""The shard of an object if the releasing shard is unknown."""

CONCURRENT_LISTS = 8
"""Lists at the same time: each holds a page."""


class Dependent(NamedTuple):
    """A controlled object, as it was listed."""

    resource: Resource
    obj: PartialObject
    controller: str
    """The uid of its controller."""


async def list_dependents(
    snapshot: RingSnapshot,
    objects: Objects,
    main: Resource,
    parents: Mapping[str, PartialObject],
    shards: Set[ShardName],
) -> Mapping[str, list[Dependent]]:
    """Return the dependents of objects of a main resource, by the uid of their controller.

    Args:
        snapshot: The ring.
        objects: Lists the dependents.
        main: The resource of the parents.
        parents: The objects by uid.
        shards: The shards on which the dependents can be; with `UNKNOWN`, any shard or none.

    Raises:
        ApiError: a list failed.
    """
    names = "" if UNKNOWN in shards else ",".join(sorted(shards))
    labels = f"{snapshot.owner_label} in ({names})" if names else ""
    found = defaultdict[str, list[Dependent]](list)

    async def read(resource: Resource, namespace: str) -> None:
        # It is not served any more, so there are none.
        with naming_the_rule(resource.id), suppress(NotFound):
            async for obj in objects.of(resource, labels, namespace=namespace).stream():
                reference = obj.metadata.controller
                if reference is not None and reference.uid in parents:
                    found[reference.uid].append(Dependent(resource, obj, reference.uid))

    async with batch(CONCURRENT_LISTS) as lists:
        for controlled in _controlled_by(snapshot, main.id) if parents else ():
            with naming_the_rule(controlled), suppress(NotFound):
                resource = await objects.find(controlled)
                for namespace in _namespaces_of(snapshot, resource, parents):
                    await lists.add(read(resource, namespace))
    return found


def _controlled_by(snapshot: RingSnapshot, main: GroupResource) -> Iterator[GroupResource]:
    for entry in snapshot.resources:
        for controlled in entry.controlled_resources if entry.id == main else ():
            if snapshot.roles[controlled.id] is Role.CONTROLLED:
                yield controlled.id


def _namespaces_of(
    snapshot: RingSnapshot, resource: Resource, parents: Mapping[str, PartialObject]
) -> Iterator[str]:
    """Yield the namespaces of the dependents; the empty one stands for all."""
    namespaces = {parent.metadata.namespace for parent in parents.values()}
    most = MAX_NAMESPACES if snapshot.is_split else 1
    if not resource.namespaced or "" in namespaces or len(namespaces) > most:
        yield ""
    else:
        yield from sorted(namespaces)

"""What is never sharded, whatever a ring lists.

Whoever may write a ring has the sharder label objects with its own rights, and be asked about all
that are created.  By these objects clusters are run, and shards and the sharder itself steered.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sharder.names import API_GROUP, GroupResource, is_resource

EXCLUDED_GROUPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "admissionregistration.k8s.io": "by them the API server knows whom to ask before it "
        "writes, the sharder among others",
        "authentication.k8s.io": "by them it is asked whose a token is, before anything else",
        "authorization.k8s.io": "by them it is asked who may do what, before anything else",
        "coordination.k8s.io": "by them shards and leaders hold their places",
        "rbac.authorization.k8s.io": "they say who may do what",
        API_GROUP: "they steer the sharder itself",
    }
)
"""Why not, by API group."""

EXCLUDED_RESOURCES: Final[Mapping[GroupResource, str]] = MappingProxyType(
    dict.fromkeys(
        (GroupResource("", "events"), GroupResource("events.k8s.io", "events")),
        "the sharder records them itself, and no controller works on them",
    )
)
"""Why not, of other groups."""


def reason_against(resource: GroupResource) -> str | None:
    """Return why the objects of a resource are never sharded, None if they may be."""
    return EXCLUDED_GROUPS.get(resource.group) or EXCLUDED_RESOURCES.get(resource)


def may_be_sharded(resource: GroupResource) -> bool:
    """Tell whether a ring may have such a resource."""
    return is_resource(resource) and reason_against(resource) is None

"""Aggregated discovery: all resources of the API server in two requests."""

from dataclasses import dataclass
from typing import Final

import msgspec

from sharder.core.api.meta import Resource
from sharder.core.errors import Rejected
from sharder.core.names import GroupResource
from sharder.kube.client import JSON, Client
from sharder.kube.errors import understand

_KIND: Final = "APIGroupDiscoveryList"
_ACCEPT: Final = f"{JSON};g=apidiscovery.k8s.io;v=v2;as={_KIND},{JSON}"
"""Aggregated discovery: two requests instead of one for each group (Kubernetes 1.30, KEP-3352)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The resources of the API server, each once, in its preferred version."""

    resources: tuple[Resource, ...]
    """The resources that can be listed and patched, sorted by group and name."""
    silent: tuple[str, ...]
    """API groups whose aggregated server is unavailable, so that their resources are unknown."""


class _Response(msgspec.Struct, frozen=True):
    kind: str = ""


class _Resource(msgspec.Struct, frozen=True, rename="camel"):
    resource: str
    response_kind: _Response = _Response()
    scope: str = ""
    singular_resource: str = ""
    short_names: tuple[str, ...] = ()
    verbs: frozenset[str] = frozenset()


class _Version(msgspec.Struct, frozen=True):
    version: str
    resources: tuple[_Resource, ...] = ()
    freshness: str = ""


class _Name(msgspec.Struct, frozen=True):
    name: str = ""


class _Group(msgspec.Struct, frozen=True):
    metadata: _Name = _Name()
    versions: tuple[_Version, ...] = ()
    """The preferred version first."""


class _Groups(msgspec.Struct, frozen=True):
    kind: str = ""
    items: tuple[_Group, ...] = ()


async def served(client: Client) -> Served:
    """Discover the resources that can be listed and patched.

    Raises:
        ApiError: as `Client.request`; `Rejected` also if the server is older than Kubernetes 1.30.
    """
    groups: list[_Group] = []
    for path in ("/api", "/apis"):
        answer = understand(await client.request("GET", path, accept=_ACCEPT), _Groups, path)
        if answer.kind != _KIND:
            raise Rejected(f"GET {path}: no aggregated discovery; the server is older than 1.30")
        groups += answer.items
    by_id: dict[GroupResource, Resource] = {}
    for group in groups:
        for resource in _resources_of(group):
            by_id.setdefault(resource.id, resource)
    return Served(
        resources=tuple(resource for _, resource in sorted(by_id.items())),
        silent=tuple(sorted({g.metadata.name for g in groups if _is_silent(g)})),
    )


def _resources_of(group: _Group) -> list[Resource]:
    return [
        Resource(
            id=GroupResource(group.metadata.name, resource.resource),
            version=version.version,
            kind=resource.response_kind.kind,
            namespaced=resource.scope == "Namespaced",
            singular=resource.singular_resource,
            short_names=resource.short_names,
        )
        for version in group.versions
        for resource in version.resources
        if resource.verbs >= {"list", "patch"}
    ]


def _is_silent(group: _Group) -> bool:
    """Return whether a version of the group is stale: its resources are old or unknown."""
    return any(version.freshness == "Stale" for version in group.versions)

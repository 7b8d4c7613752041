"""Discovery of single resources and of a schema, and objects by metadata only."""

import asyncio
from datetime import datetime
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from sharder.core.api.cluster import Schema
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import NotFound
from sharder.core.names import API_GROUP, API_VERSION, GroupResource
from sharder.kube.client import Client
from sharder.kube.errors import decode_as
from sharder.kube.store import KubeStore, Scope

D = TypeVar("D")

_CORE_VERSION: Final = "v1"
_CACHE_SECONDS: Final = 60.0
"""How long a discovered resource is cached: its CRD can begin to serve another version."""
_OPENAPI: Final = f"/openapi/v3/apis/{API_GROUP}/{API_VERSION}"
"""Every authenticated client can read this path (system:discovery), but not the CRD itself."""


class _Version(msgspec.Struct, frozen=True):
    version: str


class _Group(msgspec.Struct, frozen=True, rename="camel"):
    versions: tuple[_Version, ...] = ()
    preferred_version: _Version | None = None

    def in_order(self) -> list[str]:
        """The versions, the preferred one first."""
        versions = [version.version for version in self.versions]
        first = self.preferred_version
        return sorted(versions, key=lambda version: first is None or version != first.version)


class _Served(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    kind: str
    namespaced: bool = False
    singular_name: str = ""
    short_names: tuple[str, ...] = ()


class _ResourceList(msgspec.Struct, frozen=True):
    resources: tuple[_Served, ...] = ()


class KubeObjects:
    """The cluster's resources; discovery is cached for a minute."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._discovered: dict[GroupResource, tuple[Resource, float]] = {}

    def server_time(self) -> datetime | None:
        """Return the API server's clock, as its last answer shows it."""
        return self._client.server_time()

    async def find(self, resource: GroupResource) -> Resource:
        """Discover the resource, in its group's preferred version if this version serves it."""
        now = asyncio.get_running_loop().time()
        known, until = self._discovered.get(resource, (None, now))
        if known is None or now >= until:
            known = await discover(self._client, resource)
            self._discovered[resource] = (known, now + _CACHE_SECONDS)
        return known

    def of(
        self, resource: Resource, labels: str = "", *, namespace: str = "", fields: str = ""
    ) -> KubeStore[PartialObject]:
        """Return the resource's objects that match the label and the field selector."""
        return KubeStore(
            self._client,
            PartialObject,
            resource,
            Scope(namespace, labels, fields),
            metadata_only=True,
        )


async def discover(client: Client, resource: GroupResource) -> Resource:
    """Discover the resource, in its group's preferred version if this version serves it.

    Raises:
        NotFound: the API server does not serve the resource.
    """
    missing = (
        f"the API server does not serve {resource}: install its CRD, or correct its name or group"
    )
    if not resource.group:
        group = _Group(versions=(_Version(_CORE_VERSION),))
        root = "/api"
    else:
        root = f"/apis/{quote(resource.group, safe='')}"
        try:
            group = await _read(client, root, _Group)
        except NotFound as error:
            raise NotFound(missing) from error
    for version in group.in_order():
        for served in (await _read(client, f"{root}/{version}", _ResourceList)).resources:
            if served.name == resource.resource:
                return Resource(
                    id=resource,
                    version=version,
                    kind=served.kind,
                    namespaced=served.namespaced,
                    singular=served.singular_name,
                    short_names=served.short_names,
                )
    raise NotFound(missing)


async def _read(client: Client, path: str, of: type[D]) -> D:
    return decode_as(await client.request("GET", path), of, path)


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


class _Named(Schema, frozen=True, kw_only=True):
    kinds: tuple[_Kind, ...] = msgspec.field(default=(), name="x-kubernetes-group-version-kind")


class _Components(msgspec.Struct, frozen=True):
    schemas: dict[str, _Named] = {}


class _OpenApi(msgspec.Struct, frozen=True):
    components: _Components = _Components()


async def ring_schema(client: Client) -> Schema | None:
    """Return the schema of ControllerRings, None if the server does not serve them."""
    try:
        schemas = (await _read(client, _OPENAPI, _OpenApi)).components.schemas.values()
    except NotFound:
        return None
    return next((each for each in schemas if _Kind("ControllerRing") in each.kinds), None)

"""Everybody who writes objects: people, pods and shards, each with a client of its own."""

from collections.abc import Mapping
from typing import Final

import msgspec

from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import NotFound
from sharder.core.names import GroupResource
from sharder.kube.client import MERGE_PATCH, Client
from sharder.kube.typed_stores import LEASES, RINGS

WITHIN: Final = 30.0
"""Seconds that anything may take on a slow machine."""

CONFIGMAPS: Final = Resource(
    id=GroupResource("", "configmaps"), version="v1", kind="ConfigMap", namespaced=True
)
PODS: Final = Resource(id=GroupResource("", "pods"), version="v1", kind="Pod", namespaced=True)
SERVICE_ACCOUNTS: Final = Resource(
    id=GroupResource("", "serviceaccounts"), version="v1", kind="ServiceAccount", namespaced=True
)
WIDGETS: Final = Resource(
    id=GroupResource("example.com", "widgets"), version="v1", kind="Widget", namespaced=True
)
PLANETS: Final = Resource(
    id=GroupResource("example.com", "planets"), version="v1", kind="Planet", namespaced=False
)

CONTAINERS: Final[Json] = [{"name": "main", "image": "registry.example.com/none"}]
CONTENT: Final[Mapping[str, Mapping[str, Json]]] = {
    "Pod": {"spec": {"containers": CONTAINERS, "automountServiceAccountToken": False}}
}
"""What an object of a kind must have, by kind."""


class User:
    """A user who writes objects; any failure fails the test."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(
        self, of: Resource, name: str = "", *, namespace: str = "", dry_run: bool = False,
        content: Mapping[str, Json] | None = None, **metadata: Json,
    ) -> PartialObject:  # fmt: skip
        """Create an object; `content` stands beside its metadata."""
        body = {**_typed(of), **(content or {}), "metadata": {"name": name, **metadata}}
        return await self._write("POST", path_of(of, namespace), body, dry_run=dry_run)

    async def replace(self, of: Resource, obj: PartialObject) -> PartialObject:
        """Replace an object by one with its name and nothing else, no labels either."""
        meta = obj.metadata
        body: Json = {**_typed(of), "metadata": {"name": meta.name}}
        return await self._write("PUT", path_of(of, meta.namespace, meta.name), body)

    async def label(
        self, of: Resource, obj: PartialObject, labels: Mapping[str, str | None], part: str = ""
    ) -> PartialObject:
        """Set and remove labels, also by a write of a part, such as `/status`."""
        path = path_of(of, obj.metadata.namespace, obj.metadata.name)
        return await self._write("PATCH", path + part, {"metadata": {"labels": labels}})

    async def patch(
        self, of: Resource, name: str, body: Json, *, namespace: str = ""
    ) -> PartialObject:
        """Merge `body` into an object."""
        return await self._write("PATCH", path_of(of, namespace, name), body)

    async def get(self, of: Resource, name: str, *, namespace: str = "") -> PartialObject:
        """Read an object."""
        answer = await self._client.request("GET", path_of(of, namespace, name))
        return msgspec.json.decode(answer, type=PartialObject)

    async def lease(self, name: str, namespace: str) -> Lease:
        """Read a Lease."""
        answer = await self._client.request("GET", path_of(LEASES, namespace, name))
        return msgspec.json.decode(answer, type=Lease)

    async def ring(self, name: str) -> ControllerRing:
        """Read a ring."""
        answer = await self._client.request("GET", path_of(RINGS, name=name))
        return msgspec.json.decode(answer, type=ControllerRing)

    async def find(self, of: Resource, namespace: str) -> tuple[PartialObject, ...]:
        """Return the objects of a namespace."""
        answer = await self._client.request("GET", path_of(of, namespace))
        return msgspec.json.decode(answer, type=_Items).items

    async def delete(self, of: Resource, name: str, *, namespace: str = "") -> None:
        """Delete an object, if it is there."""
        try:
            await self._client.request("DELETE", path_of(of, namespace, name))
        except NotFound:
            return

    async def _write(
        self, method: str, path: str, body: Json, *, dry_run: bool = False
    ) -> PartialObject:
        answer = await self._client.request(
            method,
            path,
            query={"dryRun": "All"} if dry_run else None,
            body=body,
            content_type=MERGE_PATCH if method == "PATCH" else "application/json",
            timeout=WITHIN,
        )
        return msgspec.json.decode(answer, type=PartialObject)


class _Items(msgspec.Struct, frozen=True):
    items: tuple[PartialObject, ...]


def path_of(of: Resource, namespace: str = "", name: str = "") -> str:
    """Return the path of a collection, or of one object in it."""
    root = f"/apis/{of.id.group}" if of.id.group else "/api"
    place = f"/namespaces/{namespace}" if of.namespaced else ""
    return f"{root}/{of.version}{place}/{of.id.resource}" + (f"/{name}" if name else "")


def controlled_by(obj: PartialObject) -> list[Json]:
    """Return the owner references of what `obj` controls."""
    reference: Json = {
        "apiVersion": obj.api_version,
        "kind": obj.kind,
        "name": obj.metadata.name,
        "uid": obj.metadata.uid,
        "controller": True,
    }
    return [reference]


def _typed(of: Resource) -> dict[str, Json]:
    group = f"{of.id.group}/" if of.id.group else ""
    return {"apiVersion": f"{group}{of.version}", "kind": of.kind}

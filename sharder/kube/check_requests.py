"""The request that only `sharder check` sends: for the schema of ControllerRings."""

from typing import Final

import msgspec

from sharder.core.api.cluster import Schema
from sharder.core.errors import NotFound
from sharder.core.names import API_GROUP, API_VERSION
from sharder.kube.client import Client
from sharder.kube.errors import understand
from sharder.kube.typed_stores import RINGS

_OPENAPI: Final = f"/openapi/v3/apis/{API_GROUP}/{API_VERSION}"
"""Every authenticated client can read this path (system:discovery), but not the CRD itself."""


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
        answer = await client.request("GET", _OPENAPI)
    except NotFound:
        return None
    schemas = understand(answer, _OpenApi, _OPENAPI).components.schemas.values()
    return next((each for each in schemas if _Kind(RINGS.kind) in each.kinds), None)

"""A fake cluster behind the ports of the controllers, which changes only on request."""

# ruff: noqa: D102 - the ports document their methods
import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from datetime import datetime
from typing import Final, Generic, TypeVar

import msgspec

from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json, ObjectMeta, PartialObject, Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.fence.probe import NoFence, Proof
from sharder.core.names import GroupResource, ObjectRef, RingName
from sharder.ports import Bookmark, Listed, WatchEvent

T = TypeVar("T")

SECRETS: Final = Resource(
    id=GroupResource("", "secrets"), version="v1", kind="Secret", namespaced=True
)


class Source(Generic[T]):
    """A collection that is listed once, and changes on request."""

    def __init__(self, items: list[T]) -> None:
        self._items = items
        self.events = asyncio.Queue[WatchEvent[T]]()

    async def list(self, keep: Callable[[T], bool] | None = None) -> Listed[T]:
        items = list(filter(keep, self._items)) if keep else list(self._items)
        return Listed(items, "1")

    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[T], None]:
        yield Bookmark(resource_version)
        while True:
            yield await self.events.get()


class Empty(Source[PartialObject]):
    """A resource without objects; of the writes only `apply` is implemented."""

    def __init__(self) -> None:
        super().__init__([])

    def server_time(self) -> datetime | None:
        return None

    async def find(self, _resource: GroupResource) -> Resource:
        return SECRETS

    def of(
        self, _resource: Resource, _labels: str = "", *, namespace: str = "", fields: str = ""
    ) -> "Empty":
        return self

    async def stream(self, _labels: str = "", _fields: str = "") -> AsyncIterator[PartialObject]:
        for obj in list[PartialObject]():
            yield obj

    async def get(self, ref: ObjectRef) -> PartialObject:
        return PartialObject(metadata=ObjectMeta(name=ref.name))

    async def create(self, _namespace: str, body: Json) -> PartialObject:
        raise NotImplementedError(body)

    async def patch(self, ref: ObjectRef, _body: Json) -> PartialObject:
        raise NotImplementedError(ref)

    async def apply(self, ref: ObjectRef, body: Json) -> PartialObject:
        return msgspec.convert(body, PartialObject)

    async def delete(self, ref: ObjectRef, *, uid: str, resource_version: str) -> None:
        raise NotImplementedError(ref)

    async def prove(self, _ring: RingName) -> Proof:
        return NoFence()

    async def warn(self, about: PartialObject, reason: str, message: str) -> None:
        """Record nothing."""

    async def record(
        self, about: PartialObject, reason: str, message: str, *, warning: bool
    ) -> None:
        """Record nothing."""


class Statuses:
    """Status subresources: writes succeed and are discarded."""

    async def create(self, _namespace: str, body: Json) -> ControllerRing:
        raise NotImplementedError(body)

    async def patch(self, ref: ObjectRef, body: Json) -> ControllerRing:
        written = {"metadata": {"name": ref.name}, "spec": {"resources": []}, **_tree(body)}
        return msgspec.convert(written, ControllerRing)

    async def delete(self, ref: ObjectRef, *, uid: str, resource_version: str) -> None:
        raise NotImplementedError(ref)


class Leases(Source[Lease]):
    """Leases that only their shards write."""

    async def stream(self, _labels: str = "", _fields: str = "") -> AsyncIterator[Lease]:
        for lease in self._items:
            yield lease

    async def get(self, ref: ObjectRef) -> Lease:
        raise NotImplementedError(ref)

    async def create(self, _namespace: str, body: Json) -> Lease:
        raise NotImplementedError(body)

    async def patch(self, ref: ObjectRef, _body: Json) -> Lease:
        raise NotImplementedError(ref)

    async def delete(self, ref: ObjectRef, *, uid: str, resource_version: str) -> None:
        raise NotImplementedError(ref)


def _tree(body: Json) -> dict[str, Json]:
    return dict(body) if isinstance(body, dict) else {}

"""Whole objects of a store, as a shard reads and keeps them."""

from collections.abc import AsyncGenerator, Callable

import msgspec
from typing_extensions import override

from sharder.core.api.meta import Json, Resource
from sharder.core.names import ObjectRef
from sharder.ports import Listed, WatchEvent
from sharder.sdk.reads.cache import Whole, whole
from sharder.sdk.reads.collection import OwnObjects
from sharder.sdk.reads.objects import OwnObject
from sharder.sdk.testing.fake_store import FakeStore
from sharder.sdk.testing.rules import Tree


class FakeDocuments:
    """Whole objects of a store, as bytes."""

    def __init__(self, store: FakeStore[Tree], reads: list[str] | None = None) -> None:
        """`reads` gets one line for each read of an object."""
        self._store = store
        self._reads = [] if reads is None else reads

    async def get(self, ref: ObjectRef) -> msgspec.Raw:
        """Return the current object."""
        self._reads.append(f"get {ref.name}")
        return _raw(await self._store.get(ref))

    async def create(self, namespace: str, body: Json) -> msgspec.Raw:
        """Create an object; `Conflict` if the name is taken."""
        return _raw(await self._store.create(namespace, body))

    async def patch(self, ref: ObjectRef, body: Json) -> msgspec.Raw:
        """Merge `body` into the object; `Conflict` if `body` has another resourceVersion."""
        return _raw(await self._store.patch(ref, body))

    async def delete(self, ref: ObjectRef, *, uid: str, resource_version: str) -> None:
        """Delete the object; `Conflict` if it has another uid or resourceVersion."""
        await self._store.delete(ref, uid=uid, resource_version=resource_version)


class WholeStore(FakeStore[OwnObject]):
    """A view of a store with whole objects, as the caches of a shard watch them."""

    def __init__(self, store: FakeStore[Tree], resource: Resource, labels: str) -> None:
        super().__init__(OwnObject, resource, labels=labels)
        self._state = store._state  # noqa: SLF001 - of the same class

    @override
    def _decode(self, tree: Tree) -> Whole:
        kind, version = str(tree["kind"]), str(tree["apiVersion"])
        return whole(msgspec.json.encode(tree), api_version=version, kind=kind)


class ServedView:
    """A shard's objects; each request needs a resource that is served, and a right."""

    def __init__(self, view: OwnObjects, require: Callable[[str], None]) -> None:
        """`require` raises unless a request with the verb is answered."""
        self._view = view
        self._require = require

    async def list(self, keep: Callable[[OwnObject], bool] | None = None) -> Listed[OwnObject]:
        """Return the objects."""
        self._require("list")
        return await self._view.list(keep)

    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[OwnObject], None]:
        """Yield the events after the version."""
        self._require("watch")
        async for event in self._view.watch(resource_version):
            yield event

    async def patch(self, ref: ObjectRef, body: Json) -> OwnObject:
        """Merge `body` into the object."""
        self._require("patch")
        return await self._view.patch(ref, body)


def _raw(tree: Tree) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(tree))

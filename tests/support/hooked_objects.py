"""Objects in memory whose calls run hooks: tests lose races, strip labels and break lists.

`on`, `once` and `raising` build hooks.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import datetime
from typing import NamedTuple

from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.names import GroupResource, ObjectRef
from sharder.ports import Listed, WatchEvent
from tests.support.fake_store import FakeStore
from tests.support.fakes import FakeObjects


class Call(NamedTuple):
    """A call to the objects; `ref` is there where the call is about one object."""

    verb: str
    """find, list, stream, next (an object of a stream), watch, get or patch."""
    resource: GroupResource
    ref: ObjectRef | None = None
    labels: str = ""
    """What a list asks for."""
    namespace: str = ""
    """Where; empty for all."""


Hook = Callable[[Call], Awaitable[None]]


class HookedObjects:
    """Objects that record each call, and run hooks before and after it."""

    def __init__(self, inner: FakeObjects) -> None:
        self.inner = inner
        self.calls: list[Call] = []
        self.before: list[Hook] = []
        self.after: list[Hook] = []

    def server_time(self) -> datetime | None:
        return self.inner.server_time()

    async def find(self, resource: GroupResource) -> Resource:
        await self.run(Call("find", resource), self.before)
        return await self.inner.find(resource)

    def of(
        self, resource: Resource, labels: str = "", *, namespace: str = "", fields: str = ""
    ) -> "HookedStore":
        inner = self.inner.of(resource, labels, namespace=namespace, fields=fields)
        return HookedStore(self, inner, resource.id, labels, namespace)

    async def run(self, call: Call, hooks: list[Hook]) -> None:
        if hooks is self.before:
            self.calls.append(call)
        for hook in list(hooks):
            await hook(call)


class HookedStore:
    """The store of one resource of `HookedObjects`."""

    def __init__(
        self,
        all_objects: HookedObjects,
        inner: FakeStore[PartialObject],
        resource: GroupResource,
        labels: str,
        namespace: str,
    ) -> None:
        self._all = all_objects
        self._inner = inner
        self._resource = resource
        self._labels = labels
        self._namespace = namespace

    async def list(
        self, keep: Callable[[PartialObject], bool] | None = None
    ) -> Listed[PartialObject]:
        namespace = self._namespace
        call = Call("list", self._resource, labels=self._labels, namespace=namespace)
        await self._all.run(call, self._all.before)
        return await self._inner.list(keep)

    async def stream(
        self, labels: str = "", fields: str = ""
    ) -> AsyncGenerator[PartialObject, None]:
        await self._run("stream")
        async for obj in self._inner.stream(labels, fields):
            await self._run("next", obj.metadata.ref)
            yield obj

    async def watch(
        self, resource_version: str
    ) -> AsyncGenerator[WatchEvent[PartialObject], None]:
        await self._run("watch")
        async for event in self._inner.watch(resource_version):
            yield event

    async def get(self, ref: ObjectRef) -> PartialObject:
        await self._run("get", ref)
        return await self._inner.get(ref)

    async def create(self, namespace: str, body: Json) -> PartialObject:
        return await self._inner.create(namespace, body)

    async def patch(self, ref: ObjectRef, body: Json) -> PartialObject:
        await self._run("patch", ref)
        await self._inner.patch(ref, body)
        await self._all.run(Call("patch", self._resource, ref), self._all.after)
        return await self._inner.get(ref)

    async def delete(self, ref: ObjectRef, *, uid: str, resource_version: str) -> None:
        await self._inner.delete(ref, uid=uid, resource_version=resource_version)

    async def _run(self, verb: str, ref: ObjectRef | None = None) -> None:
        namespace = self._namespace if ref is None else ref.namespace
        call = Call(verb, self._resource, ref, namespace=namespace)
        await self._all.run(call, self._all.before)


def on(verb: str, resource: GroupResource, act: Hook, name: str = "") -> Hook:
    """Return a hook that acts on some calls only."""

    async def hook(call: Call) -> None:
        named = not name or (call.ref is not None and call.ref.name == name)
        if call[:2] == (verb, resource) and named:
            await act(call)

    return hook


def once(act: Callable[[], Awaitable[object]]) -> Hook:
    """Return a hook that acts the first time only."""
    left = [act]

    async def hook(_call: Call) -> None:
        if left:
            await left.pop()()

    return hook


def raising(error: Exception) -> Hook:
    """Return a hook that fails each time."""

    async def hook(_call: Call) -> None:
        raise error

    return hook

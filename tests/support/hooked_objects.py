"""Objects in memory whose calls run hooks: tests lose races, strip labels and break lists.

`on`, `once` and `raising` build hooks.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import NamedTuple

from typing_extensions import override

from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.names import GroupResource, ObjectRef
from tests.support.fake_store import FakeStore
from tests.support.fakes import FakeObjects


class Call(NamedTuple):
    """A call to the objects."""

    verb: str
    """next (an object of a stream), or patch."""
    resource: GroupResource
    ref: ObjectRef


Hook = Callable[[Call], Awaitable[None]]


class HookedObjects(FakeObjects):
    """Objects that record each call, and run hooks before it and after a patch."""

    def __init__(self, *resources: Resource) -> None:
        super().__init__(*resources)
        self.calls, self.before, self.after = list[Call](), list[Hook](), list[Hook]()

    @override
    def of(
        self, resource: Resource, labels: str = "", *, namespace: str = "", fields: str = ""
    ) -> FakeStore[PartialObject]:
        view = HookedStore(PartialObject, resource, labels=labels, namespace=namespace)
        view._state, view.objects = self.stores[resource.id]._state, self
        return view


class HookedStore(FakeStore[PartialObject]):
    """The store of one resource of `HookedObjects`."""

    objects: HookedObjects

    @override
    async def stream(
        self, labels: str = "", fields: str = ""
    ) -> AsyncGenerator[PartialObject, None]:
        async for obj in super().stream(labels, fields):
            await self._run("next", obj.metadata.ref)
            yield obj

    @override
    async def patch(self, ref: ObjectRef, body: Json) -> PartialObject:
        call = await self._run("patch", ref)
        await super().patch(ref, body)
        for hook in self.objects.after:
            await hook(call)
        return await self.get(ref)

    async def _run(self, verb: str, ref: ObjectRef) -> Call:
        call = Call(verb, self._resource.id, ref)
        self.objects.calls.append(call)
        for hook in self.objects.before:
            await hook(call)
        return call


def on(verb: str, resource: GroupResource, act: Hook, name: str = "") -> Hook:
    """Return a hook that acts on some calls only."""

    async def hook(call: Call) -> None:
        if call[:2] == (verb, resource) and name in {"", call.ref.name}:
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

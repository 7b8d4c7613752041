"""A cluster in memory as the commands of `sharder` read it."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from typing_extensions import override

from sharder.cli.cluster import Cluster
from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.names import GroupResource
from sharder.kube.typed_stores import LEASES, NAMESPACES, RINGS
from sharder.sdk.testing.fake_clock import FakeClock
from sharder.sdk.testing.memory_client import MemoryClient
from sharder.sdk.testing.requests import Client
from tests.support.fake_store import FakeStore, State, server_of
from tests.support.values import CONFIGMAPS, SECRETS, WIDGETS, A, B, lease, ring

T = TypeVar("T")

PERSON = Client(username="person")
"""The user of the commands."""
RESOURCES = (
    Resource(id=WIDGETS, version="v1", kind="Widget", namespaced=True),
    Resource(id=SECRETS, version="v1", kind="Secret", namespaced=True),
    Resource(id=CONFIGMAPS, version="v1", kind="ConfigMap", namespaced=True),
)


class ScriptedClock(FakeClock):
    """Time passes when a task sleeps, and then the next event of the script happens."""

    def __init__(self) -> None:
        super().__init__()
        self.script = list[Callable[[], Awaitable[object]]]()
        self.slept = list[float]()

    @override
    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._elapsed += seconds
        if self.script:
            await self.script.pop(0)()


class ReadCluster:
    """A cluster with the ring `demo`, the namespace `default` and the shards a and b."""

    def __init__(self) -> None:
        self.server = server_of((*RESOURCES, RINGS, LEASES, NAMESPACES))
        self.rings, self.leases = self._store(ControllerRing, RINGS), self._store(Lease, LEASES)
        self.namespaces = self._store(PartialObject, NAMESPACES)
        self.stores = {each.id: self._store(PartialObject, each) for each in RESOURCES}
        self.clock = ScriptedClock()
        self.cluster = Cluster(MemoryClient(self.server, PERSON), self.clock)

    def _store(self, of: type[T], resource: Resource) -> FakeStore[T]:
        return FakeStore(of, resource, state=State(self.server, resource))

    async def filled(self) -> None:
        await self.rings.create("", as_body(ring()))
        await self.namespaces.create("", {"metadata": {"name": "default"}})
        for name in (A, B):
            await self.leases.create("default", as_body(lease(name)))

    async def add(self, resource: GroupResource, thing: PartialObject) -> None:
        await self.stores[resource].create(thing.metadata.namespace, as_body(thing))


def as_body(thing: msgspec.Struct) -> Json:
    body: Json = msgspec.to_builtins(thing)
    return body

"""A cluster in memory as the commands of `sharder` read it."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec
from typing_extensions import override

from sharder.cli.cluster import Cluster
from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.names import GroupResource
from sharder.core.plan.observe import DatedObject
from sharder.kube.typed_stores import NAMESPACES, RINGS
from sharder.sdk.testing.fake_clock import FakeClock
from tests.support.fake_store import FakeStore
from tests.support.fakes import FakeObjects, fake_leases
from tests.support.values import CONFIGMAPS, NOW, SECRETS, WIDGETS, A, B, lease, ring

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

    def __init__(self, *resources: Resource) -> None:
        self.rings, self.leases = FakeStore(ControllerRing, RINGS), fake_leases()
        self.namespaces = FakeStore(PartialObject, NAMESPACES)
        self.resources = resources or RESOURCES
        self.objects = FakeObjects(*self.resources)
        self.clock = ScriptedClock()
        self.cluster = Cluster(
            rings=self.rings,
            leases=self.leases,
            namespaces=self.namespaces,
            objects=self.objects,
            dated=lambda of: self.objects.stores[of.id].decoding(DatedObject),
            now=NOW + timedelta(seconds=20),
            clock=self.clock,
        )

    async def filled(self) -> None:
        await self.rings.create("", as_body(ring()))
        await self.namespaces.create("", {"metadata": {"name": "default"}})
        for name in (A, B):
            await self.leases.create("default", as_body(lease(name)))

    async def add(self, resource: GroupResource, thing: PartialObject) -> None:
        await self.objects.stores[resource].create(thing.metadata.namespace, as_body(thing))


def as_body(thing: msgspec.Struct) -> Json:
    body: Json = msgspec.to_builtins(thing)
    return body

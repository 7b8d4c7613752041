"""A cluster in memory with Secrets, ConfigMaps and Widgets, and a shard at work on it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

import msgspec
from typing_extensions import override

from sharder.core.api.meta import Json, ObjectMeta, PartialObject, Resource
from sharder.core.api.ring import ControlledResource, ControllerRing, RingResource, RingSpec
from sharder.core.names import (
    EVACUATE_ANNOTATION,
    GroupResource,
    ObjectRef,
    RingName,
    drain_label,
    owner_label,
)
from sharder.metrics.collectors import Metrics
from sharder.sdk import LeaseTiming, Request, Settings, Shard, testing
from sharder.sdk.reconciler import Reconcile
from sharder.sdk.testing.fake_clock import FakeClock, FixedRng, settle
from sharder.sdk.testing.memory_client import Collection
from sharder.sdk.testing.storage import Change
from sharder.sdk.testing.writer import Admission, Attributes
from sharder.shard.objects import Document

RING = RingName("demo")
ME, OTHER = "shard-a", "shard-b"
OWNER, DRAIN = owner_label(RING), drain_label(RING)
SECRETS = testing.custom("secrets", kind="Secret")
CONFIGMAPS = testing.custom("configmaps", kind="ConfigMap")
WIDGETS = testing.custom("widgets.example.com", kind="Widget")
LEASE = ObjectRef("default", ME)
TIMING = LeaseTiming(lease_duration=5, renew_deadline=3.0, retry_period=1.0)
SETTINGS = Settings(name=ME, namespace="default", lease=TIMING)


def ring_of(*resources: RingResource) -> ControllerRing:
    return ControllerRing(metadata=ObjectMeta(name=RING), spec=RingSpec(resources=resources))


class FakeCluster(testing.FakeCluster):
    """The cluster of the testing kit, whose watches a test can hold up."""

    def __init__(self) -> None:
        super().__init__(WIDGETS)
        children = (ControlledResource(resource="configmaps"),)
        self.rings[RING] = ring_of(RingResource(resource="secrets", controlled_resources=children))
        self.held = set[GroupResource]()
        """The resources whose open watches show nothing new."""
        self._late = list[Change]()
        self.server.storage.observers[:] = [self._deliver]

    def _deliver(self, change: Change) -> None:
        if change.resource in self.held:
            self._late.append(change)
        else:
            self.server.deliver(change)

    def let_watches_flow(self) -> None:
        self.held.clear()
        late, self._late = self._late, []
        for change in late:
            self.server.deliver(change)

    @property
    def events(self) -> Collection[Document]:
        return self.store("events")

    @property
    def widgets(self) -> Collection[Document]:
        return self.store("widgets.example.com")


class Webhook(Admission):
    """A function of a test that changes what shards write, or acts before it is stored."""

    def __init__(self, admit: Callable[[Attributes], Awaitable[Document]]) -> None:
        self._admit = admit

    @override
    async def mutate(self, attributes: Attributes) -> Document:
        if attributes.call.client.username != "shard":
            return await super().mutate(attributes)
        return await self._admit(attributes)


@dataclass
class Scene:
    """The cluster, and what third parties do."""

    cluster: FakeCluster = field(default_factory=FakeCluster)

    @property
    def clock(self) -> FakeClock:
        return self.cluster.clock

    @property
    def secrets(self) -> Collection[Document]:
        return self.cluster.store("secrets")

    @property
    def configmaps(self) -> Collection[Document]:
        return self.cluster.store("configmaps")

    async def create_secret(self, name: str, owner: str = ME) -> ObjectRef:
        body: Json = {"metadata": {"name": name, "labels": {OWNER: owner}}, "data": {"k": "djE="}}
        await self.secrets.create("default", body)
        await settle()
        return ObjectRef("default", name)

    async def label(self, ref: ObjectRef, labels: Mapping[str, str | None]) -> None:
        await self.secrets.patch(ref, {"metadata": {"labels": labels}})
        await settle()

    async def drain(self, ref: ObjectRef) -> None:
        await self.label(ref, {DRAIN: "true"})

    async def labels(self, ref: ObjectRef) -> Mapping[str, str]:
        tree = await self.secrets.get(ref)
        return msgspec.convert(tree, PartialObject).metadata.labels or {}

    def hold_up_watches(self, *of: Resource) -> None:
        """Let the shard see nothing new of these, or of all, until `let_watches_flow`."""
        self.cluster.held |= {each.id for each in of or (SECRETS, CONFIGMAPS, WIDGETS)}

    async def let_watches_flow(self) -> None:
        self.cluster.let_watches_flow()
        await settle()

    async def steal_lease(self) -> None:
        """Do as the sharder does with a shard that it has given up."""
        await self.cluster.lease_store.patch(
            LEASE, {"spec": {"holderIdentity": "shardlease-controller"}}
        )

    async def asked_evacuation(self) -> str:
        """Return what the Lease says about the shard's evacuation, empty if nothing."""
        return (await self.cluster.lease_store.get(LEASE)).metadata.annotation(EVACUATE_ANNOTATION)

    async def ask_evacuation(self, value: str) -> None:
        """Write what a person, or a process before, has asked."""
        annotations: Json = {EVACUATE_ANNOTATION: value}
        await self.cluster.lease_store.patch(LEASE, {"metadata": {"annotations": annotations}})

    async def holder(self) -> str | None:
        return (await self.cluster.lease_store.get(LEASE)).spec.holder_identity

    async def has_lease(self) -> bool:
        leases = await self.cluster.lease_store.list()
        return LEASE in {lease.metadata.ref for lease in leases.items}


@dataclass
class Controller:
    """An author's function that can be held up; keeps what it did."""

    is_held: bool = False
    result: float | timedelta | None = None
    started: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    overlapped: bool = False
    cleanup: asyncio.Event | None = None
    """A reconcile that is cancelled goes on until this is set."""
    requests: list[Request] = field(default_factory=list)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    errors: list[Exception] = field(default_factory=list)
    """Raised one by one, instead of doing anything."""

    @property
    def running(self) -> set[str]:
        counts = {name: self.started.count(name) - self.ended.count(name) for name in self.started}
        return {name for name, count in counts.items() if count}

    async def __call__(self, request: Request) -> float | timedelta | None:
        name = request.ref.name
        self.overlapped |= name in self.running
        self.started.append(name)
        self.requests.append(request)
        try:
            if self.errors:
                raise self.errors.pop(0)
            if self.is_held:
                await self.released.wait()
        except asyncio.CancelledError:
            self.cancelled.append(name)
            if self.cleanup is not None:
                await self.cleanup.wait()
            raise
        finally:
            self.ended.append(name)
        return self.result


@asynccontextmanager
async def at_work(
    scene: Scene,
    reconcile: Reconcile,
    *,
    widgets: Reconcile | None = None,
    cache: Sequence[str] = (),
    more: Callable[[Shard], None] = lambda _: None,
    metrics: Metrics | None = None,
    **settings: object,
) -> AsyncGenerator[tuple[Shard, asyncio.Task[None]], None]:
    """Start a shard and let it take up its work; it is cancelled at the end.

    It reconciles Secrets, and Widgets too if there is a function for them; `more` adds what else
    it does, and `settings` are those that differ from `SETTINGS`.
    """
    shard = Shard(ring=RING, settings=replace(SETTINGS, **settings))  # type: ignore[arg-type]
    shard.reconciler("secrets", reconcile, owns=["configmaps"], cache=cache)
    if widgets is not None:
        shard.reconciler("widgets.example.com", widgets, owns=["configmaps"])
    more(shard)
    task = asyncio.create_task(
        shard.serve_on(scene.cluster, clock=scene.clock, rng=FixedRng(), metrics=metrics),
        name="shard",
    )
    await settle()
    try:
        yield shard, task
    finally:
        task.cancel()
        await asyncio.wait({task})

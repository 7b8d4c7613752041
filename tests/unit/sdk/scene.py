"""A cluster in memory with Secrets, ConfigMaps and Widgets, and a shard at work on it."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

import msgspec
from typing_extensions import override

from sharder.core.api.meta import Json, ObjectMeta, PartialObject, Resource
from sharder.core.api.ring import ControlledResource, ControllerRing, RingResource, RingSpec
from sharder.core.errors import ApiError, SharderError
from sharder.core.names import (
    EVACUATE_ANNOTATION,
    GroupResource,
    ObjectRef,
    RingName,
    drain_label,
    owner_label,
)
from sharder.metrics.shard import ShardMetrics
from sharder.ports import Listed, WatchEvent
from sharder.sdk import LeaseTiming, Request, Settings, Shard, testing
from sharder.sdk.events import EVENTS
from sharder.sdk.reconciler import Reconcile
from sharder.sdk.testing import FakeClock, settle
from sharder.sdk.testing.memory_client import Collection
from sharder.sdk.testing.writer import Admission, Attributes
from sharder.shard.cluster import OwnObjects
from sharder.shard.objects import Document, OwnObject
from sharder.shard.rights import Right

RING = RingName("demo")
ME, OTHER = "shard-a", "shard-b"
OWNER, DRAIN = owner_label(RING), drain_label(RING)
SECRETS = testing.custom("secrets", kind="Secret")
CONFIGMAPS = testing.custom("configmaps", kind="ConfigMap")
WIDGETS = testing.custom("widgets.example.com", kind="Widget")
LEASE = ObjectRef("default", ME)
TIMING = LeaseTiming(lease_duration=5, renew_deadline=3.0, retry_period=1.0)
SETTINGS = Settings(name=ME, namespace="default", lease=TIMING)


class HalfWay:
    """Randomness that is always in the middle."""

    def random(self) -> float:
        return 0.5


class OwnView:
    """The metadata of a shard's objects; what watches show and writes answer can be held up."""

    def __init__(
        self,
        view: OwnObjects,
        *,
        watches: asyncio.Event,
        answers: asyncio.Event,
        admit: Callable[[Json], Json],
    ) -> None:
        self._view = view
        self._watches = watches
        self._answers = answers
        self._admit = admit

    async def list(self, keep: Callable[[OwnObject], bool] | None = None) -> Listed[OwnObject]:
        return await self._view.list(keep)

    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[OwnObject]]:
        async for event in self._view.watch(resource_version):
            await self._watches.wait()
            yield event

    async def patch(self, ref: ObjectRef, body: Json) -> OwnObject:
        result = await self._view.patch(ref, self._admit(body))
        await self._answers.wait()
        return result


class FakeCluster(testing.FakeCluster):
    """The cluster of the testing kit, whose watches, answers and reviews a test can hold up."""

    def __init__(self) -> None:
        super().__init__(WIDGETS)
        self.watches_flow = asyncio.Event()
        self.watches_flow.set()
        self.child_watches_flow = asyncio.Event()
        self.child_watches_flow.set()
        self.answers_flow = asyncio.Event()
        self.answers_flow.set()
        self.find_faults: deque[ApiError] = deque()
        self.ring_found: ControllerRing | SharderError = ControllerRing(
            metadata=ObjectMeta(name=RING),
            spec=RingSpec(
                resources=(
                    RingResource(
                        resource="secrets",
                        controlled_resources=(ControlledResource(resource="configmaps"),),
                    ),
                )
            ),
        )
        self.review_faults: deque[ApiError] = deque()
        self.admit: Callable[[Json], Json] = lambda body: body
        """What webhooks make of a shard's acknowledgements."""

    @property
    def secrets(self) -> Collection[Document]:
        return self.store("secrets")

    @property
    def configmaps(self) -> Collection[Document]:
        return self.store("configmaps")

    @property
    def events(self) -> Collection[Document]:
        return self.store(str(EVENTS.id))

    @property
    def widgets(self) -> Collection[Document]:
        return self.store("widgets.example.com")

    @override
    async def find(self, resource: GroupResource) -> Resource:
        if self.find_faults:
            raise self.find_faults.popleft()
        return await super().find(resource)

    @override
    async def ring(self, name: RingName) -> ControllerRing:
        if isinstance(self.ring_found, SharderError):
            raise self.ring_found
        return self.ring_found

    @override
    async def may(self, right: Right) -> bool:
        if self.review_faults:
            raise self.review_faults.popleft()
        return await super().may(right)

    @override
    def objects(self, resource: Resource, labels: str) -> OwnView:
        return self._own_view(super().objects(resource, labels), resource)

    @override
    def whole(self, resource: Resource, labels: str) -> OwnView:
        return self._own_view(super().whole(resource, labels), resource)

    def _own_view(self, view: OwnObjects, resource: Resource) -> OwnView:
        is_child = resource.id == CONFIGMAPS.id
        return OwnView(
            view,
            watches=self.child_watches_flow if is_child else self.watches_flow,
            answers=self.answers_flow,
            admit=self._admitted,
        )

    def _admitted(self, body: Json) -> Json:
        return self.admit(body)


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
        return self.cluster.secrets

    @property
    def configmaps(self) -> Collection[Document]:
        return self.cluster.configmaps

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

    def hold_up_watches(self) -> None:
        """Let the shard see nothing new until `let_watches_flow`."""
        self.cluster.watches_flow.clear()
        self.cluster.child_watches_flow.clear()

    async def let_watches_flow(self) -> None:
        self.cluster.watches_flow.set()
        self.cluster.child_watches_flow.set()
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
    name: str = ME,
    more: Callable[[Shard], None] = lambda _: None,
    drain_grace: timedelta = timedelta(seconds=10),
    stop_grace: timedelta = timedelta(seconds=20),
    drain_on_stop: timedelta | float = 0.0,
    reacquire: bool = False,
    workers: int = 10,
    revision: str = "",
    metrics: ShardMetrics | None = None,
) -> AsyncGenerator[tuple[Shard, asyncio.Task[None]], None]:
    """Start a shard and let it take up its work; it is cancelled at the end.

    It reconciles Secrets, and Widgets too if there is a function for them; `more` adds what else
    it does.
    """
    settings = replace(
        SETTINGS,
        name=name,
        drain_grace=drain_grace,
        stop_grace=stop_grace,
        drain_on_stop=drain_on_stop,
        reacquire=reacquire,
        workers=workers,
        revision=revision,
    )
    shard = Shard(ring=RING, settings=settings)
    shard.reconciler("secrets", reconcile, owns=["configmaps"], cache=cache)
    if widgets is not None:
        shard.reconciler("widgets.example.com", widgets, owns=["configmaps"])
    more(shard)
    task = asyncio.create_task(
        shard.serve_on(scene.cluster, clock=scene.clock, rng=HalfWay(), metrics=metrics),
        name="shard",
    )
    await settle()
    try:
        yield shard, task
    finally:
        task.cancel()
        await asyncio.wait({task})

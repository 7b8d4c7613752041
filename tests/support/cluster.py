"""A small cluster in memory: rings, Leases, namespaces, objects, and a cache that follows them.

Tests add hooks to its objects (`tests.support.hooked_objects`).
"""

import random
from asyncio import Lock, TaskGroup
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import msgspec

from sharder.controllers.annotation_warnings import AnnotationWarnings
from sharder.controllers.cache import ClusterCache
from sharder.controllers.cache_events import Subscriber
from sharder.controllers.counting.live_counts import LiveCounts
from sharder.controllers.movement.handover.handover_queue import HandoverQueue
from sharder.controllers.movement.resync.resync_pass import Locks
from sharder.controllers.movement.waiting.orphans import Orphans
from sharder.controllers.movement.writes.drain_budget import DrainBudget
from sharder.controllers.movement.writes.failures import Failures
from sharder.controllers.movement.writes.lease_guard import LeaseGuard
from sharder.controllers.movement.writes.mover import Mover
from sharder.controllers.movement.writes.written_steps import WrittenSteps
from sharder.controllers.ownerless import Ownerless
from sharder.controllers.scope import ObjectKey
from sharder.core.api.lease import Lease, format_time
from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.api.selector import LabelSelector
from sharder.core.errors import NotFound
from sharder.core.names import (
    RING_LABEL,
    STATE_LABEL,
    GroupResource,
    ObjectRef,
    RingName,
    ShardName,
)
from sharder.core.ring.snapshot import RingSnapshot
from sharder.sdk.testing.fake_clock import FakeClock, settle
from tests.support.fake_store import FakeStore
from tests.support.fakes import (
    FakeJournal,
    FakeObjects,
    FakeRecorder,
    FakeWebhookConfigurations,
    fake_leases,
    fake_rings,
)
from tests.support.hooked_objects import HookedObjects
from tests.support.recorded_metrics import RecordedMetrics
from tests.support.values import CONFIGMAPS, DEMO, DRAIN, NEXT, OWNER, SECRETS, WIDGETS, ring

NAMESPACES = GroupResource("", "namespaces")

_RESOURCES = {
    WIDGETS: Resource(id=WIDGETS, version="v1", kind="Widget", namespaced=True),
    SECRETS: Resource(id=SECRETS, version="v1", kind="Secret", namespaced=True),
    CONFIGMAPS: Resource(id=CONFIGMAPS, version="v1", kind="ConfigMap", namespaced=True),
    NAMESPACES: Resource(id=NAMESPACES, version="v1", kind="Namespace", namespaced=False),
}


class Cluster:
    """Starts with the namespace `default` and the ring `demo`, and the cache not yet running."""

    def __init__(self, demo: ControllerRing | None = None) -> None:
        self.clock = FakeClock()
        self._began = self.clock.now()
        self.rng = random.Random(0)
        self.rings = fake_rings()
        self.leases = fake_leases()
        self.leases_of_mover = self.leases
        """What the API server says, where the watch tells something else."""
        self.objects = HookedObjects(FakeObjects(*_RESOURCES.values()))
        self.objects.inner.clock = self.server_time
        self.namespaces = self.objects.inner.stores[NAMESPACES]
        self.configurations = FakeWebhookConfigurations()
        self.validations = FakeWebhookConfigurations()
        self.cache = self.new_cache()
        self.leads = True
        self.metrics = RecordedMetrics()
        self.journal = FakeJournal()
        self.moved = list[RingName]()
        """The ring of each write to an object, and of each orphan that came or went."""
        self.recorder = FakeRecorder()
        self.annotation_warnings = AnnotationWarnings(self.recorder, self.clock)
        self.locks: Locks = defaultdict(Lock)
        self.pending = HandoverQueue(clock=self.clock, rng=self.rng)
        self.forbidden: list[str | None] = []
        """What was reported as not to be written, for want of rights."""
        self.failures = Failures(
            clock=self.clock,
            rng=self.rng,
            recorder=self.recorder,
            counter=self.metrics,
            report=lambda _, problem: self.forbidden.append(problem),
            retry=self.pending.retry,
        )
        self.orphans = Orphans(self.objects.server_time)
        self.drains = DrainBudget(counter=self.metrics, clock=self.clock)
        self.live = LiveCounts(lambda _: Counter())
        self.arrivals = list[tuple[str, ShardName | None, ShardName]]()
        """Each main object that was assigned, where it came from, and its new shard."""
        self.ownerless = Ownerless(
            metrics=self.metrics,
            asked=self.drains.asked,
            on_assigned=self._arrived,
            clock=self.clock,
        )
        self._demo = demo or ring()

    def server_time(self) -> datetime:
        """The API server's clock, which is right."""
        return self._began + timedelta(seconds=self.clock.monotonic())

    def _arrived(self, key: ObjectKey, source: ShardName | None, target: ShardName) -> None:
        self.arrivals.append((key.ref.name, source, target))
        self.live.assigned(key, source, target)

    def new_cache(self) -> ClusterCache:
        """Return what a process begins with."""
        return ClusterCache(
            objects=self.objects.inner,
            clock=self.clock,
            rng=self.rng,
            default_namespaces=LabelSelector(),
            excluded=frozenset(),
            custom={},
        )

    def guard(self, *, request: Callable[[], None], answer: Callable[[], None]) -> None:
        """Ask at each call, as `FakeStore.guard` says."""
        self.rings.guard(request=request, answer=answer)
        self.leases.guard(request=request, answer=answer)
        for configurations in (self.configurations, self.validations):
            configurations.store.guard(request=request, answer=answer)
        for store in self.objects.inner.stores.values():
            store.guard(request=request, answer=answer)

    def mover(self, limit: int = 10) -> Mover:
        return Mover(
            cache=self.cache,
            objects=self.objects,
            lease_guard=LeaseGuard(
                cache=self.cache, leases=self.leases_of_mover, clock=self.clock
            ),
            leads=lambda: self.leads,
            failures=self.failures,
            drains=self.drains,
            orphans=self.orphans,
            written=WrittenSteps(
                ownerless=self.ownerless,
                counter=self.metrics,
                moved=self.moved.append,
            ),
            limit=limit,
        )

    @asynccontextmanager
    async def watched(
        self, *shards: ShardName, since: float = 31, seconds: int = 15
    ) -> AsyncIterator[None]:
        """Let the cache follow, with the ring and these shards there, renewed a moment ago.

        Args:
            shards: Their Leases last `seconds`.
            since: For how long it has been followed: who was not there for `UNKNOWN_SILENCE`
                seconds is gone.
            seconds: The duration of the Leases.
        """
        await self.add_namespace("default")
        await self.put_ring(self._demo)
        for shard in shards:
            await self.join(shard, seconds=seconds)
        async with TaskGroup() as group:
            task = group.create_task(self.follow())
            await self.clock.advance(since)
            for shard in shards:
                await self.renew(shard)
            await self.settle()
            try:
                yield
            finally:
                task.cancel()

    async def follow(self) -> None:
        await self.cache.run(
            rings=self.rings,
            leases=self.leases.selecting(RING_LABEL),
            namespaces=self.namespaces,
        )

    @property
    def snapshot(self) -> RingSnapshot:
        now = self.cache.snapshot(DEMO)
        assert now is not None
        return now

    async def put_ring(self, of: ControllerRing) -> ControllerRing:
        """Create the ring, or give it another spec and generation."""
        metadata: Json = {"name": of.name, "generation": of.metadata.generation}
        body: Json = {"metadata": metadata, "spec": msgspec.to_builtins(of.spec)}
        try:
            return await self.rings.patch(ObjectRef("", of.name), body)
        except NotFound:
            return await self.rings.create("", body)

    async def break_ring(self, name: str = DEMO) -> None:
        """Let a later version write what we cannot read."""
        body: Json = {"spec": {"placement": {"strategy": "NotYet"}}}
        await self.rings.patch(ObjectRef("", name), body)

    async def delete_ring_unseen(self, name: str = DEMO) -> None:
        """Delete the ring while the watch is broken and its window passes."""
        await self.delete_ring(name)
        self.rings.compact()
        self.rings.hang_up()

    async def delete_ring(self, name: str = DEMO) -> None:
        meta = (await self.rings.get(ObjectRef("", name))).metadata
        await self.rings.delete(meta.ref, uid=meta.uid, resource_version=meta.resource_version)

    async def add_namespace(self, name: str, **labels: str) -> None:
        await self.namespaces.create("", {"metadata": {"name": name, "labels": labels}})

    async def write_namespace(self, name: str, metadata: Json) -> None:
        await self.namespaces.patch(ObjectRef("", name), {"metadata": metadata})

    async def delete_namespace(self, name: str) -> None:
        meta = (await self.namespaces.get(ObjectRef("", name))).metadata
        await self.namespaces.delete(
            meta.ref, uid=meta.uid, resource_version=meta.resource_version
        )

    async def join(
        self, shard: ShardName, *, seconds: int = 15, of: str = DEMO, namespace: str = "default"
    ) -> Lease:
        """Let a shard take its Lease."""
        now = format_time(self.clock.now())
        return await self.leases.create(
            namespace,
            {
                "metadata": {"name": shard, "labels": {RING_LABEL: of}},
                "spec": {
                    "holderIdentity": shard,
                    "leaseDurationSeconds": seconds,
                    "acquireTime": now,
                    "renewTime": now,
                },
            },
        )

    async def show(self, shard: ShardName, state: str) -> None:
        """Write the state label of a shard, as the leader does."""
        body: Json = {"metadata": {"labels": {STATE_LABEL: state}}}
        await self.leases.patch(ObjectRef("default", shard), body)
        await self.settle()

    async def renew(self, shard: ShardName) -> Lease:
        return await self.write_lease(shard, renewTime=format_time(self.clock.now()))

    async def leave(self, shard: ShardName) -> Lease:
        """Let a shard release its Lease."""
        return await self.write_lease(shard, holderIdentity="")

    async def write_lease(self, shard: ShardName, **spec: Json) -> Lease:
        return await self.leases.patch(ObjectRef("default", shard), {"spec": spec})

    async def move_lease(self, shard: ShardName, to: str) -> None:
        """Let a shard name another ring."""
        ref = ObjectRef("default", shard)
        await self.leases.patch(ref, {"metadata": {"labels": {RING_LABEL: to}}})

    async def delete_lease_unseen(self, shard: ShardName) -> None:
        """Delete the Lease while the watch is broken and its window passes."""
        await self.delete_lease(shard)
        self.leases.compact()
        self.leases.hang_up()

    async def delete_lease(self, shard: ShardName) -> None:
        meta = (await self.leases.get(ObjectRef("default", shard))).metadata
        await self.leases.delete(meta.ref, uid=meta.uid, resource_version=meta.resource_version)

    async def add(
        self,
        resource: GroupResource,
        name: str,
        *,
        owner: str | None = None,
        draining: bool = False,
        to: ShardName | None = None,
        controlled_by: PartialObject | None = None,
        namespace: str = "default",
        **labels: str,
    ) -> PartialObject:
        """Create an object as it stands after admission, with these labels, drained `to`."""
        labels |= {OWNER: owner} if owner else {}
        references: list[Json] = []
        if controlled_by is not None:
            references.append(
                {
                    "apiVersion": controlled_by.api_version,
                    "kind": controlled_by.kind,
                    "name": controlled_by.metadata.name,
                    "uid": controlled_by.metadata.uid,
                    "controller": True,
                }
            )
        body: Json = {
            "metadata": {
                "name": name,
                "generation": 1 if resource.group else 0,  # core ConfigMaps and Secrets have none
                "labels": labels | ({DRAIN: "true"} if draining else {}),
                "annotations": {NEXT: to} if to else {},
                "ownerReferences": references,
                "creationTimestamp": self.server_time().isoformat(),
            }
        }
        return await self.store(resource).create(namespace, body)

    async def label(
        self, obj: PartialObject, resource: GroupResource, **labels: str | None
    ) -> PartialObject:
        """Change an object's labels as another client: `owner` and `drain` are the ring's."""
        ours = {"owner": OWNER, "drain": DRAIN}
        changes: Json = {ours.get(key, key): value for key, value in labels.items()}
        body: Json = {"metadata": {"labels": changes}}
        return await self.store(resource).patch(obj.metadata.ref, body)

    async def acknowledge(self, obj: PartialObject, resource: GroupResource) -> None:
        """Acknowledge a drain as the shard does."""
        await self.label(obj, resource, owner=None, drain=None)

    async def delete(self, obj: PartialObject, resource: GroupResource) -> None:
        meta = (await self.store(resource).get(obj.metadata.ref)).metadata
        await self.store(resource).delete(
            meta.ref, uid=meta.uid, resource_version=meta.resource_version
        )

    async def owners(self, resource: GroupResource) -> dict[str, str]:
        """The owner label of every object; `*` follows it where the object is draining."""
        return {
            o.metadata.name: o.metadata.label(OWNER) + ("*" if o.metadata.has_label(DRAIN) else "")
            for o in (await self.store(resource).list()).items
        }

    def store(self, resource: GroupResource) -> FakeStore[PartialObject]:
        return self.objects.inner.stores[resource]

    async def settle(self) -> None:
        """Let everything happen that needs no time, however long it takes."""
        for _ in range(20):
            await settle()


class RecordedChanges:
    """A subscriber that records the changes of which the cache notifies it."""

    def __init__(self) -> None:
        self.rings: list[RingName] = []
        self.steps: list[RingName] = []
        self.come: list[tuple[RingName, frozenset[str]]] = []
        """Namespaces that have come into a ring's scope, where nothing else has changed."""
        self.leases: list[ObjectRef] = []

    def subscriber(self) -> Subscriber:
        return Subscriber(
            ring=self.rings.append,
            steps=self.steps.append,
            scope=lambda ring, come: self.come.append((ring, come)),
            lease=self.leases.append,
        )

    def forget(self) -> None:
        self.rings.clear()
        self.steps.clear()
        self.come.clear()
        self.leases.clear()

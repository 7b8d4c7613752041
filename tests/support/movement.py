"""Everything that moves objects, running in a small cluster in memory."""

from asyncio import TaskGroup
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from sharder.controllers.cache_events import Subscriber
from sharder.controllers.counting.unread_parts import UnreadParts
from sharder.controllers.movement.handover.handover import Handover
from sharder.controllers.movement.resync.resync import Resync
from sharder.controllers.movement.watches.orphan_watches import OrphanWatches
from sharder.controllers.movement.watches.overdue import OverdueDrains
from sharder.controllers.permissions import Watching
from sharder.controllers.scope import ResourceKey
from sharder.core.api.meta import PartialObject
from sharder.core.names import GroupResource, RingName, ShardName
from sharder.core.status.stats import OverdueOf
from tests.support.cluster import Cluster, RecordedChanges
from tests.support.values import DEMO

SOON = 0.1
"""Longer than acknowledgements are gathered, shorter than the delay of other orphans."""
SYNC_PERIOD = 300.0
"""Seconds between two passes over a ring whose objects can all be placed."""


class Moving:
    """What the watches and the hand-over of a cluster tell to those who care for rings."""

    def __init__(self) -> None:
        self.watching = Watching()
        self.changed: list[RingName] = []
        self.faults: list[tuple[RingName, str | None]] = []
        self.overdue: OverdueOf = lambda _: None


@asynccontextmanager
async def moving(cluster: Cluster, *shards: ShardName, limit: int = 10) -> AsyncIterator[Moving]:
    """Watch for orphans and hand over, with these shards there; `limit` bounds the writes."""
    around = Moving()
    handover = Handover(
        cache=cluster.cache,
        objects=cluster.objects,
        mover=cluster.mover(limit),
        failures=cluster.failures,
        on_fault=lambda ring, fault: around.faults.append((ring, fault)),
        pending=cluster.pending,
        locks=cluster.locks,
        rng=cluster.rng,
    )
    watches = OrphanWatches(
        cache=cluster.cache,
        objects=cluster.objects,
        pending=cluster.pending,
        forget=handover.forget,
        watching=around.watching,
        on_change=around.changed.append,
        moved=cluster.moved.append,
        drains=cluster.drains,
        journal=cluster.journal,
        orphans=cluster.orphans,
        ownerless=cluster.ownerless,
        overdue=OverdueDrains(
            cache=cluster.cache,
            objects=cluster.objects,
            recorder=cluster.recorder,
            metrics=cluster.metrics,
            on_change=around.changed.append,
            clock=cluster.clock,
        ),
        metrics=cluster.metrics,
        clock=cluster.clock,
        rng=cluster.rng,
    )
    around.overdue = watches.overdue
    ignored = RecordedChanges().subscriber()
    subscriber = Subscriber(
        ring=watches.ring_changed,
        steps=ignored.steps,
        scope=lambda ring, _: watches.ring_changed(ring),
        lease=ignored.lease,
    )
    async with cluster.watched(*shards), TaskGroup() as group:
        with cluster.cache.subscribed(subscriber):
            tasks = [group.create_task(each.run()) for each in (handover, watches)]
            await cluster.clock.advance(SOON)
            try:
                yield around
            finally:
                for task in tasks:
                    task.cancel()


class _ForLong:
    """Objects that have been without owner for long."""

    def wait(self, obj: PartialObject) -> float:
        return 0.0


def without_owner_for_long(cluster: Cluster, *resources: GroupResource) -> None:
    """Let it be known that what has no owner has lost none lately."""
    for resource in resources:
        cluster.orphans.watch(ResourceKey(DEMO, resource), _ForLong())


def resync(
    cluster: Cluster,
    report: Callable[[RingName, str | None], None] = lambda _ring, _problem: None,
    *,
    on_fault: Callable[[RingName, str | None], None] = lambda _ring, _problem: None,
    limit: int = 10,
) -> Resync:
    """Return what passes over the rings of a cluster; `limit` bounds the writes."""
    unread = UnreadParts(
        on_change=lambda ring: report(ring, unread.problem(ring)),
        clock=cluster.clock,
        rng=cluster.rng,
    )
    return Resync(
        cache=cluster.cache,
        objects=cluster.objects,
        mover=cluster.mover(limit),
        locks=cluster.locks,
        annotation_warnings=cluster.annotation_warnings,
        unread=unread,
        on_fault=on_fault,
        live=cluster.live,
        passed=lambda _: None,
        found=lambda _: None,
        resync_ring=lambda _: None,
        metrics=cluster.metrics,
        clock=cluster.clock,
        sync_period=SYNC_PERIOD,
    )


def patched(cluster: Cluster) -> list[tuple[GroupResource, str]]:
    """Return what was written, in order."""
    return [
        (call.resource, call.ref.name)
        for call in cluster.objects.calls
        if call.verb == "patch" and call.ref is not None
    ]

"""Everything that moves objects, wired together; the leader alone runs it."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sharder.controllers.annotation_warnings import AnnotationWarnings
from sharder.controllers.cache import ClusterCache
from sharder.controllers.counting.object_count import ObjectCount
from sharder.controllers.movement.arrivals import Arrivals
from sharder.controllers.movement.drain_budget import DeferredCounter, DrainBudget
from sharder.controllers.movement.failures import Failures, Report
from sharder.controllers.movement.handover import Handover
from sharder.controllers.movement.lease_guard import LeaseGuard
from sharder.controllers.movement.mover import Counter, Mover
from sharder.controllers.movement.object_backlog import Series
from sharder.controllers.movement.orphans import Orphans
from sharder.controllers.movement.overdue import OverdueDrains, OverdueSeries
from sharder.controllers.movement.pending import PendingObjects
from sharder.controllers.movement.rebalancer import Rebalancer
from sharder.controllers.movement.rebalancer import Series as BalanceSeries
from sharder.controllers.movement.resync import Locks, Resync, Stopwatch
from sharder.controllers.movement.watches import OrphanWatches
from sharder.controllers.permissions import Watching
from sharder.core.names import RingName
from sharder.core.status.stats import ObjectStats
from sharder.ports import Objects, Recorder
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.runtime.lease_lock import Leases


class Meter(Counter, DeferredCounter, Stopwatch, Series, OverdueSeries, BalanceSeries, Protocol):
    """Everything that is measured of moving objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What moving objects needs from outside."""

    cache: ClusterCache
    objects: Objects
    leases: Leases
    recorder: Recorder
    annotation_warnings: AnnotationWarnings
    meter: Meter
    leads: Callable[[], bool]
    """Tells whether our leader Lease is unexpired at this moment."""
    clock: Clock
    rng: Rng
    limit: int
    """Writes under way at once."""
    sync_period: float
    """Seconds between two passes over a ring in which nothing changes."""


class Movement:
    """The resync, the watches of exceptions, and the hand-over, with one writer for all."""

    def __init__(
        self,
        ports: Ports,
        *,
        on_unreadable: Report,
        on_fault: Report,
        on_unwritable: Report,
        watching: Watching,
        on_change: Callable[[RingName], None],
        resync_ring: Callable[[RingName], None],
    ) -> None:
        """Wire everything.

        Args:
            ports: All that comes from outside.
            on_unreadable: Told after every pass over a ring what could not be read.
            on_fault: Told what a ring's strategy did wrong, and after a pass that it did not.
            on_unwritable: Told what we have no right to write, when that changes.
            watching: Notes which watches are refused.
            on_change: Called when that changes for a ring, when drains are overdue or no more, and
                after every pass over it.
            resync_ring: Has a whole ring passed over.
        """
        cache, objects, clock, rng = ports.cache, ports.objects, ports.clock, ports.rng
        locks: Locks = defaultdict(asyncio.Lock)
        pending = PendingObjects(clock=clock, rng=rng)
        failures = Failures(
            clock=clock,
            rng=rng,
            recorder=ports.recorder,
            counter=ports.meter,
            report=on_unwritable,
            retry=pending.retry,
        )
        self._lease_guard = LeaseGuard(cache=cache, leases=ports.leases, clock=clock)
        self._on_change = on_change
        self._object_count = ObjectCount(
            cache=cache, objects=objects, publish=self._recounted, clock=clock, rng=rng
        )
        drains = DrainBudget(counter=ports.meter, clock=clock)
        orphans = Orphans(clock)
        mover = Mover(
            cache=cache,
            objects=objects,
            lease_guard=self._lease_guard,
            leads=ports.leads,
            failures=failures,
            drains=drains,
            orphans=orphans,
            counter=ports.meter,
            moved=self._object_count.moved,
            limit=ports.limit,
        )
        self.resync = Resync(
            cache=cache,
            objects=objects,
            mover=mover,
            locks=locks,
            annotation_warnings=ports.annotation_warnings,
            report=on_unreadable,
            on_fault=on_fault,
            passed=self._passed,
            stopwatch=ports.meter,
            clock=clock,
            sync_period=ports.sync_period,
        )
        self._arrivals = Arrivals(
            cache=cache,
            objects=objects,
            mover=mover,
            locks=locks,
            annotation_warnings=ports.annotation_warnings,
            resync_ring=resync_ring,
            found=self._object_count.moved,
            clock=clock,
            rng=rng,
        )
        self.rebalancer = Rebalancer(
            cache=cache,
            objects=objects,
            mover=mover,
            on_change=on_change,
            series=ports.meter,
            clock=clock,
        )
        self.handover = Handover(
            cache=cache,
            objects=objects,
            mover=mover,
            failures=failures,
            on_fault=on_fault,
            pending=pending,
            locks=locks,
            rng=rng,
        )
        self.watches = OrphanWatches(
            cache=cache,
            objects=objects,
            pending=pending,
            forget=self.handover.forget,
            watching=watching,
            on_change=on_change,
            moved=self._object_count.moved,
            drains=drains,
            orphans=orphans,
            overdue=OverdueDrains(
                cache=cache,
                objects=objects,
                recorder=ports.recorder,
                series=ports.meter,
                on_change=on_change,
                clock=clock,
            ),
            series=ports.meter,
            clock=clock,
            rng=rng,
        )

    def _passed(self, ring: RingName) -> None:
        self._object_count.passed(ring)
        self._on_change(ring)

    def _recounted(self, ring: RingName, stats: ObjectStats) -> None:
        self.resync.recounted(ring, stats)
        self._on_change(ring)

    def scope_changed(self, ring: RingName, come: frozenset[str]) -> None:
        """Look after these namespaces too, which have come into the ring's scope."""
        self.watches.ring_changed(ring)
        self._arrivals.add(ring, come)

    async def run(self) -> None:
        """Watch for exceptions and hand over until cancelled; passes are the caller's."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._lease_guard.run(), name="claims")
            group.create_task(self.handover.run(), name="hand-over")
            group.create_task(self.watches.run(), name="exceptions")
            group.create_task(self._arrivals.run(), name="arrivals")
            group.create_task(self._object_count.run(), name="census")

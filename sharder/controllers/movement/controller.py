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
from sharder.controllers.movement.backlogs import Series
from sharder.controllers.movement.drain_budget import DeferredCounter, DrainBudget
from sharder.controllers.movement.failures import Failures, Report
from sharder.controllers.movement.handover import Handover
from sharder.controllers.movement.lease_guard import LeaseGuard
from sharder.controllers.movement.mover import Counter, Mover
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
    mistakes: AnnotationWarnings
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
        means: Ports,
        *,
        unreadable: Report,
        at_fault: Report,
        unwritable: Report,
        watching: Watching,
        told: Callable[[RingName], None],
        whole: Callable[[RingName], None],
    ) -> None:
        """Wire everything.

        Args:
            means: All that comes from outside.
            unreadable: Told after every pass over a ring what could not be read.
            at_fault: Told what a ring's strategy did wrong, and after a pass that it did not.
            unwritable: Told what we have no right to write, when that changes.
            watching: Notes which watches are refused.
            told: Called when that changes for a ring, when drains are overdue or no more, and
                after every pass over it.
            whole: Has a whole ring passed over.
        """
        cache, objects, clock, rng = means.cache, means.objects, means.clock, means.rng
        locks: Locks = defaultdict(asyncio.Lock)
        waiting = PendingObjects(clock=clock, rng=rng)
        failures = Failures(
            clock=clock,
            rng=rng,
            recorder=means.recorder,
            counter=means.meter,
            report=unwritable,
            retry=waiting.retry,
        )
        self._claims = LeaseGuard(cache=cache, leases=means.leases, clock=clock)
        self._told = told
        self._census = ObjectCount(
            cache=cache, objects=objects, publish=self._recounted, clock=clock, rng=rng
        )
        drains = DrainBudget(counter=means.meter, clock=clock)
        orphans = Orphans(clock)
        mover = Mover(
            cache=cache,
            objects=objects,
            claims=self._claims,
            leads=means.leads,
            failures=failures,
            drains=drains,
            orphans=orphans,
            counter=means.meter,
            moved=self._census.moved,
            limit=means.limit,
        )
        self.resync = Resync(
            cache=cache,
            objects=objects,
            mover=mover,
            locks=locks,
            mistakes=means.mistakes,
            report=unreadable,
            at_fault=at_fault,
            passed=self._passed,
            stopwatch=means.meter,
            clock=clock,
            sync_period=means.sync_period,
        )
        self._arrivals = Arrivals(
            cache=cache,
            objects=objects,
            mover=mover,
            locks=locks,
            mistakes=means.mistakes,
            whole=whole,
            found=self._census.moved,
            clock=clock,
            rng=rng,
        )
        self.rebalancing = Rebalancer(
            cache=cache, objects=objects, mover=mover, told=told, series=means.meter, clock=clock
        )
        self.hand_over = Handover(
            cache=cache,
            objects=objects,
            mover=mover,
            failures=failures,
            at_fault=at_fault,
            waiting=waiting,
            locks=locks,
            rng=rng,
        )
        self.exceptions = OrphanWatches(
            cache=cache,
            objects=objects,
            waiting=waiting,
            forget=self.hand_over.forget,
            watching=watching,
            told=told,
            moved=self._census.moved,
            drains=drains,
            orphans=orphans,
            overdue=OverdueDrains(
                cache=cache,
                objects=objects,
                recorder=means.recorder,
                series=means.meter,
                told=told,
                clock=clock,
            ),
            series=means.meter,
            clock=clock,
            rng=rng,
        )

    def _passed(self, ring: RingName) -> None:
        self._census.passed(ring)
        self._told(ring)

    def _recounted(self, ring: RingName, figures: ObjectStats) -> None:
        self.resync.recounted(ring, figures)
        self._told(ring)

    def scope_changed(self, ring: RingName, come: frozenset[str]) -> None:
        """Look after these namespaces too, which have come into the ring's scope."""
        self.exceptions.ring_changed(ring)
        self._arrivals.add(ring, come)

    async def run(self) -> None:
        """Watch for exceptions and hand over until cancelled; passes are the caller's."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claims.run(), name="claims")
            group.create_task(self.hand_over.run(), name="hand-over")
            group.create_task(self.exceptions.run(), name="exceptions")
            group.create_task(self._arrivals.run(), name="arrivals")
            group.create_task(self._census.run(), name="census")

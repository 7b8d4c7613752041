"""Connect the watches of unassigned and draining objects, the hand-over, and one mover.

The leader runs this for all resources, with rights over Leases.  A replica on standby runs it only
for leading resources, and takes and drains no objects.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass

from sharder.controllers.cache import ClusterCache
from sharder.controllers.movement.handover.handover import Handover
from sharder.controllers.movement.handover.handover_queue import HandoverQueue
from sharder.controllers.movement.waiting.orphans import Orphans
from sharder.controllers.movement.watches.orphan_watches import OrphanWatches
from sharder.controllers.movement.watches.overdue import OverdueDrains
from sharder.controllers.movement.writes.drain_budget import DrainBudget
from sharder.controllers.movement.writes.failures import Failures, OnPart, Report
from sharder.controllers.movement.writes.lease_guard import LeaseGuard
from sharder.controllers.movement.writes.mover import Mover
from sharder.controllers.movement.writes.written_steps import WrittenSteps
from sharder.controllers.ownerless import OnAssigned, Ownerless
from sharder.controllers.permissions import Watching
from sharder.core.names import RingName
from sharder.core.ring.snapshot import Role
from sharder.metrics.registry import Metrics
from sharder.ports import Journal, Objects, Recorder
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Observers:
    """The receivers of all that the loop reports."""

    recorder: Recorder | None
    """Gets Events; without a recorder nothing is reported."""
    metrics: Metrics
    shows: bool
    """Whether the backlogs and the queue are shown as metrics, which only the leader does."""
    journal: Journal
    overdue: OverdueDrains | None
    on_fault: Report
    """Called with the error of a ring's strategy."""
    on_unwritable: Report
    """Called with what we have no right to write, when that changes."""
    on_written: OnPart
    """Called with a part that rejected every write, and no longer does."""
    on_change: Callable[[RingName], None]
    """Called when the forbidden watches of a ring change."""
    moved: Callable[[RingName], None]
    """Called when objects of a ring have moved, or its backlogs change."""
    on_assigned: OnAssigned
    """Called with each main object that gets an owner."""


class HandoverLoop:
    """One mover for all writes, and the parts that hand over single objects with it."""

    def __init__(
        self,
        *,
        cache: ClusterCache,
        objects: Objects,
        lease_guard: LeaseGuard | None,
        leads: Callable[[], bool],
        watching: Watching,
        observers: Observers,
        clock: Clock,
        rng: Rng,
        limit: int,
        roles: Collection[Role] = tuple(Role),
        grace: float = 0.0,
    ) -> None:
        """Connect the parts.

        Args:
            cache: Has the rings.
            objects: Reads, watches and writes the objects.
            lease_guard: Keeps shards from returning while their objects are taken; None: no
                objects are taken.
            leads: Returns whether we are allowed to write at this moment.
            watching: Records which watches are forbidden.
            observers: Get all reports.
            clock: For all times.
            rng: For the jitter of back-offs.
            limit: Limit of concurrent writes.
            roles: Only resources of these roles are watched.
            grace: Seconds to wait for another replica to do the work.
        """

        def splits(ring: RingName) -> bool:
            snapshot = cache.snapshot(ring)
            return snapshot is not None and snapshot.is_split

        metrics = observers.metrics
        self.pending = pending = HandoverQueue(
            clock=clock,
            rng=rng,
            splits=splits,
            grace=grace,
            metrics=metrics.client_go if observers.shows else None,
        )
        failures = Failures(
            clock=clock,
            rng=rng,
            recorder=observers.recorder,
            metrics=metrics,
            report=observers.on_unwritable,
            retry=pending.retry,
            on_written=observers.on_written,
        )
        drains = DrainBudget(metrics=metrics, clock=clock)
        orphans = Orphans(objects.server_time)
        self.ownerless = Ownerless(
            metrics=metrics,
            asked=drains.asked,
            on_assigned=observers.on_assigned,
            clock=clock,
        )
        self.mover = Mover(
            cache=cache,
            objects=objects,
            lease_guard=lease_guard,
            leads=leads,
            failures=failures,
            drains=drains,
            orphans=orphans,
            written=WrittenSteps(
                ownerless=self.ownerless,
                metrics=metrics,
                moved=observers.moved,
            ),
            limit=limit,
        )
        self._handover = Handover(
            cache=cache,
            objects=objects,
            mover=self.mover,
            failures=failures,
            on_fault=observers.on_fault,
            pending=pending,
            rng=rng,
        )
        self.watches = OrphanWatches(
            cache=cache,
            objects=objects,
            pending=pending,
            forget=self._handover.forget,
            watching=watching,
            on_change=observers.on_change,
            moved=observers.moved,
            drains=drains,
            orphans=orphans,
            ownerless=self.ownerless,
            overdue=observers.overdue,
            metrics=metrics if observers.shows else None,
            journal=observers.journal,
            clock=clock,
            rng=rng,
            roles=roles,
        )

    async def run(self) -> None:
        """Watch and hand over until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._handover.run(), name="hand-over")
            group.create_task(self.watches.run(), name="watches")

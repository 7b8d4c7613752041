"""Connect everything that moves objects; only the leader runs this."""

import asyncio
import collections
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final

from sharder.controllers.annotation_warnings import AnnotationWarnings
from sharder.controllers.cache import ClusterCache
from sharder.controllers.counting.live_counts import LiveCounts
from sharder.controllers.counting.object_count import ObjectCount
from sharder.controllers.counting.unread_parts import UnreadParts
from sharder.controllers.movement.handover_loop import (
    HandoverLoop,
    Observers,
)
from sharder.controllers.movement.rebalancer import Rebalancer
from sharder.controllers.movement.resync.arrivals import Arrivals
from sharder.controllers.movement.resync.resync import Resync
from sharder.controllers.movement.watches.overdue import OverdueDrains
from sharder.controllers.movement.writes.failures import Report
from sharder.controllers.movement.writes.lease_guard import LeaseGuard
from sharder.controllers.permissions import Watching
from sharder.controllers.scope import ObjectKey, Part
from sharder.core.names import RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.stats import Apart, ObjectStats
from sharder.metrics.registry import Metrics
from sharder.ports import Journal, Objects, Recorder
from sharder.runtime.backoff import Rng
from sharder.runtime.child_process import Compute
from sharder.runtime.clock import Clock
from sharder.runtime.lease_record import Leases

MOTION_LASTS: Final = 5.0
"""Seconds after a movement in which more movements are expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What movements need from outside."""

    cache: ClusterCache
    objects: Objects
    leases: Leases
    recorder: Recorder
    annotation_warnings: AnnotationWarnings
    metrics: Metrics
    journal: Journal
    leads: Callable[[], bool]
    """Returns whether our Lease as the leader is valid at this moment."""
    compute: Compute
    clock: Clock
    rng: Rng
    limit: int
    """Limit of concurrent writes."""
    sync_period: float
    """Seconds between two passes over a ring in which nothing changes."""


class Movement:
    """The resync, the rebalancer and the hand-over, with one mover for all writes."""

    def __init__(
        self,
        ports: Ports,
        *,
        on_unreadable: Report,
        on_fault: Report,
        on_unwritable: Report,
        watching: Watching,
        on_change: Callable[[RingName], None],
        on_motion: Callable[[RingName], None],
        resync_ring: Callable[[RingName], None],
    ) -> None:
        """Connect the parts.

        Args:
            ports: All that comes from outside.
            on_unreadable: Called with what could not be read, when that changes.
            on_fault: Called with the error of a ring's strategy, and with None after a pass
                without one.
            on_unwritable: Called with what we have no right to write, when that changes.
            watching: Records which watches are forbidden.
            on_change: Called when the forbidden watches or the overdue drains of a ring change,
                and after every pass over it.
            on_motion: Called when objects of a ring have moved.
            resync_ring: Requests a pass over a whole ring.
        """
        cache, objects, clock, rng = ports.cache, ports.objects, ports.clock, ports.rng
        self._on_change = on_change
        self._on_motion = on_motion
        self._clock = clock
        self._live = LiveCounts(self._released)
        self.unread = UnreadParts(on_change=self._read, clock=clock, rng=rng)
        self._on_unreadable = on_unreadable
        self._journal = ports.journal
        self._moved_at: dict[RingName, float] = {}
        self._lease_guard = LeaseGuard(cache=cache, leases=ports.leases, clock=clock)
        self._object_count = ObjectCount(
            cache=cache,
            objects=objects,
            live=self._live,
            unread=self.unread,
            counted=on_change,
            clock=clock,
            rng=rng,
        )
        overdue = OverdueDrains(
            cache=cache,
            objects=objects,
            recorder=ports.recorder,
            metrics=ports.metrics,
            on_change=on_change,
            clock=clock,
        )
        self._loop = HandoverLoop(
            cache=cache,
            objects=objects,
            lease_guard=self._lease_guard,
            leads=ports.leads,
            watching=watching,
            observers=Observers(
                recorder=ports.recorder,
                metrics=ports.metrics,
                shows=True,
                journal=ports.journal,
                overdue=overdue,
                on_fault=on_fault,
                on_unwritable=on_unwritable,
                on_written=self._written_again,
                on_change=on_change,
                moved=self._moved,
                on_assigned=self._assigned,
            ),
            clock=clock,
            rng=rng,
            limit=ports.limit,
        )
        self.watches = self._loop.watches
        self.ownerless = self._loop.ownerless
        self.resync = Resync(
            cache=cache,
            objects=objects,
            mover=self._loop.mover,
            pending=self._loop.pending,
            annotation_warnings=ports.annotation_warnings,
            unread=self.unread,
            on_fault=on_fault,
            live=self._live,
            passed=self._passed,
            found=self._object_count.moved,
            resync_ring=resync_ring,
            metrics=ports.metrics,
            clock=clock,
            sync_period=ports.sync_period,
        )
        self._arrivals = Arrivals(
            cache=cache,
            resync=self.resync,
            resync_ring=resync_ring,
            found=self._object_count.moved,
            clock=clock,
            rng=rng,
        )
        self.rebalancer = Rebalancer(
            cache=cache,
            objects=objects,
            mover=self._loop.mover,
            on_change=on_change,
            metrics=ports.metrics,
            compute=ports.compute,
            clock=clock,
        )

    def _released(self, part: Part) -> collections.Counter[ShardName]:
        return self.watches.released(part)

    def stats(self, snapshot: RingSnapshot) -> ObjectStats | None:
        """Return the counts of a ring whose strategy follows, None before the first pass."""
        if snapshot.name not in self.resync.reports:
            return None
        return self._live.stats(snapshot, self.watches.backlog(snapshot.name))

    def uncontrolled(self, ring: RingName) -> int:
        """Return how many objects of the ring's controlled resources have no controller."""
        return self._live.uncontrolled(ring)

    def apart(self, snapshot: RingSnapshot) -> Apart | None:
        """Return the controlled objects that are not with their owners, None if there are none."""
        return self._loop.mover.failures.apart(snapshot)

    def is_moving(self, ring: RingName) -> bool:
        """Return whether objects of the ring have moved recently."""
        if self._clock.monotonic() < self._moved_at.get(ring, -inf) + MOTION_LASTS:
            return True
        self._moved_at.pop(ring, None)
        return False

    def _assigned(self, key: ObjectKey, source: ShardName | None, target: ShardName) -> None:
        self._live.assigned(key, source, target)
        self.watches.assigned(key, target)
        self._journal.moved(key.ring, source, target)

    def _moved(self, ring: RingName) -> None:
        self._moved_at[ring] = self._clock.monotonic()
        self._object_count.moved(ring)
        self._on_motion(ring)

    def _passed(self, ring: RingName) -> None:
        self._object_count.passed(ring)
        self._on_change(ring)

    def _written_again(self, part: Part) -> None:
        self.resync.writes_again(part)

    def _read(self, ring: RingName) -> None:
        self._on_unreadable(ring, self.unread.problem(ring))
        self._on_change(ring)

    def scope_changed(self, ring: RingName, come: frozenset[str]) -> None:
        """Handle namespaces that were added to the ring's scope."""
        self.watches.ring_changed(ring)
        self._arrivals.add(ring, come)

    async def run(self) -> None:
        """Watch and hand over until cancelled; the caller runs the passes."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._lease_guard.run(), name="lease guard")
            group.create_task(self._loop.run(), name="hand-over loop")
            group.create_task(self._arrivals.run(), name="arrivals")
            group.create_task(self.unread.run(self.resync.read_again), name="unread parts")
            group.create_task(self._object_count.run(), name="object count")

"""Connect everything that moves objects; only the leader runs this."""

import asyncio
from dataclasses import replace

from sharder.controllers.annotation_warnings import AnnotationWarnings
from sharder.controllers.counting.object_count import ObjectCount
from sharder.controllers.counting.unread_parts import UnreadParts
from sharder.controllers.movement.handover_loop import HandoverLoop
from sharder.controllers.movement.lease_guard import LeaseGuard
from sharder.controllers.movement.ports import Ports
from sharder.controllers.movement.rebalancer import Rebalancer
from sharder.controllers.movement.resync import Resync
from sharder.controllers.scope import Part
from sharder.core.names import RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.stats import Apart, ObjectStats
from sharder.runtime.child_process import Compute
from sharder.runtime.lease_record import Leases


class Movement:
    """The resync, the rebalancer and the hand-over, with one mover for all writes."""

    def __init__(
        self,
        ports: Ports,
        *,
        leases: Leases,
        annotation_warnings: AnnotationWarnings,
        compute: Compute,
        sync_period: float,
    ) -> None:
        """Connect the parts.

        Args:
            ports: Everything outside of movement.
            leases: Holds the Leases of shards whose objects are taken.
            annotation_warnings: Records invalid labels and annotations.
            compute: Returns the moves of a rebalance.
            sync_period: Seconds between two passes over a ring in which nothing changes.
        """
        self._ports = ports
        cache, clock, rng = ports.cache, ports.clock, ports.rng
        self.unread = UnreadParts(on_change=self._read, clock=clock, rng=rng)
        self._lease_guard = LeaseGuard(cache=cache, leases=leases, clock=clock)
        self._object_count = ObjectCount(
            cache=cache,
            objects=ports.objects,
            unread=self.unread,
            counted=ports.on_change,
            clock=clock,
            rng=rng,
        )
        inside = replace(
            ports,
            on_moved=self._moved,
            on_assigned=self._assigned,
            on_written=self._written_again,
        )
        self._loop = HandoverLoop(inside, lease_guard=self._lease_guard)
        mover, self.watches = self._loop.mover, self._loop.watches
        self.times = self._loop.times
        self.resync = Resync(
            inside,
            mover=mover,
            handover=self._loop.handover,
            annotation_warnings=annotation_warnings,
            unread=self.unread,
            count=self._object_count,
            sync_period=sync_period,
        )
        self.rebalancer = Rebalancer(inside, mover, compute)

    def stats(self, snapshot: RingSnapshot) -> ObjectStats | None:
        """Return the counts of a ring whose strategy follows, None before the first count."""
        return self._object_count.stats(snapshot, self.watches.backlog(snapshot.name))

    def apart(self, snapshot: RingSnapshot) -> Apart | None:
        """Return the controlled objects that are not with their owners, None if there are none."""
        return self._loop.mover.failures.apart(snapshot)

    def _assigned(self, ring: RingName, source: ShardName | None, target: ShardName) -> None:
        self._object_count.assigned(ring, source, target)
        self._ports.journal.moved(ring, source, target)

    def _moved(self, ring: RingName) -> None:
        self._object_count.moved(ring)
        self._ports.on_moved(ring)

    def _written_again(self, part: Part) -> None:
        self.resync.writes_again(part)

    def _read(self, ring: RingName) -> None:
        self._ports.on_unreadable(ring, self.unread.problem(ring))
        self._ports.on_change(ring)

    def scope_changed(self, ring: RingName, come: frozenset[str]) -> None:
        """Handle namespaces that were added to the ring's scope."""
        self.watches.ring_changed(ring)
        self.resync.scope_grew(ring, come)

    async def run(self) -> None:
        """Watch and hand over until cancelled; the caller runs the passes."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._lease_guard.run(), name="lease guard")
            group.create_task(self._loop.run(), name="hand-over loop")
            group.create_task(self.unread.run(self.resync.read_again), name="unread parts")
            group.create_task(self._object_count.run(), name="object count")

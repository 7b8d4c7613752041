"""Connect everything that moves objects.

The leader runs all of it, with rights over Leases.  Any other replica stands by with only
`HandoverLoop`: it hands over released objects of leading resources, a second later than the
leader, and takes and drains no objects.  No shard works on an unassigned object, and every write
is guarded, so any replica can assign the object to the shard in its `next`.  If the leader fails
during a rebalance, released objects do not wait for the next leader (docs/protocol.md, "What moves
first").
"""

import asyncio
from dataclasses import replace

from sharder.controllers.cache import Subscriber
from sharder.controllers.counting.object_count import ObjectCount
from sharder.controllers.counting.unread_parts import UnreadParts
from sharder.controllers.movement.handover import Handover
from sharder.controllers.movement.handover_queue import HandoverQueue
from sharder.controllers.movement.lease_guard import LeaseGuard
from sharder.controllers.movement.mover import Mover
from sharder.controllers.movement.rebalancer import Rebalancer
from sharder.controllers.movement.resync import Resync
from sharder.controllers.movement.table import Table
from sharder.controllers.movement.watches import Watches
from sharder.controllers.ports import Ports
from sharder.core.names import RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.conditions import ObjectStats, stats_of


class HandoverLoop:
    """One mover for all writes, and the parts that hand over single objects with it."""

    def __init__(self, ports: Ports, table: Table) -> None:
        """Connect the parts."""
        self._lease_guard = LeaseGuard(ports)
        self._pending = HandoverQueue(ports, table)
        self.mover = Mover(ports, self._lease_guard, self._pending)
        self.handover = Handover(ports, self.mover, self._pending)
        self.watches = Watches(ports, self._pending, forget=self.mover.failures.forget)

    async def run(self) -> None:
        """Watch and hand over until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._lease_guard.run(), name="lease guard")
            group.create_task(self._pending.run(self.handover.carry_over), name="hand-over")
            group.create_task(self.watches.run(), name="watches")


class Movement:
    """The resync, the rebalancer and the hand-over, with one mover for all writes."""

    def __init__(self, ports: Ports, table: Table) -> None:
        """Connect the parts."""
        self._ports = ports
        self._unread = UnreadParts(ports)
        self._object_count = ObjectCount(ports, self._unread)
        inside = replace(
            ports,
            on_moved=self._moved,
            on_assigned=self._assigned,
            on_written=lambda part: self.resync.writes_again(part),  # noqa: PLW0108 - made below
        )
        self._loop = HandoverLoop(inside, table)
        self._mover, self.watches = self._loop.mover, self._loop.watches
        self.failures = self._mover.failures
        self.resync = Resync(
            inside,
            mover=self._mover,
            handover=self._loop.handover,
            unread=self._unread,
            count=self._object_count,
        )
        self.rebalancer = Rebalancer(inside, self._mover)

    def stats(self, ring: RingName) -> ObjectStats | None:
        """Return the counts of a ring, None before the first count."""
        snapshot = self._ports.cache.snapshot(ring)
        if snapshot is None:
            return None
        if snapshot.tally is not None:
            stats = stats_of(snapshot)
        else:
            stats = self._object_count.stats(snapshot, self.watches.backlog(ring))
        if stats is None:
            return None
        return replace(stats, uncontrolled=self.resync.uncontrolled(snapshot))

    def problems(self, ring: RingName) -> dict[str, str | None]:
        """Return why objects of a ring cannot move, by the source of the problem."""
        return {
            "strategy": self._mover.written.faults.get(ring),
            "resync": self._unread.problem(ring),
            "write": self.failures.problem(ring),
        }

    def uncounted(self, snapshot: RingSnapshot) -> tuple[str, ...]:
        """Return the parts of a ring that cannot be read, for people; their counts are old."""
        return tuple(sorted({*self._unread.names(snapshot.name), *snapshot.counts.unread}))

    def _assigned(self, ring: RingName, source: ShardName | None, target: ShardName) -> None:
        self._object_count.assigned(ring, source, target)
        self._ports.journal.moved(ring, source, target)

    def _moved(self, ring: RingName) -> None:
        self._object_count.moved(ring)
        self._ports.on_moved(ring)

    async def run(self) -> None:
        """Watch and hand over until cancelled; the caller runs the passes."""
        with self._ports.cache.subscribed(Subscriber(scope=self.resync.scope_grew)):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._loop.run(), name="hand-over loop")
                group.create_task(self._unread.run(self.resync.read_again), name="unread parts")
                group.create_task(self._object_count.run(), name="object count")

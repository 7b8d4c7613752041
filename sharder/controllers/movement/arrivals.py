"""Reconcile only the namespaces that were added to a ring's scope.

Namespaces are added all the time, and a pass over the whole ring for each of them would keep the
leader busy forever.  So only the added namespaces are listed; a namespace that leaves the scope
needs no pass (docs/protocol.md, "Moving objects").
"""

from sharder.controllers.counting.object_count import ObjectCount
from sharder.controllers.movement.mover import AGAIN_SECONDS, Superseded
from sharder.controllers.movement.ports import BACKOFF, Ports
from sharder.controllers.movement.resync import Resync
from sharder.controllers.scope import MAX_NAMESPACES
from sharder.core.names import RingName
from sharder.runtime.workqueue import WorkQueue

GATHER_SECONDS = 0.2
"""Seconds in which added namespaces are collected: many are created together, and their objects a
moment later."""

CONCURRENCY = 4
"""Rings that are handled at the same time."""


class Arrivals:
    """Passes over added namespaces, ring by ring."""

    def __init__(self, ports: Ports, resync: Resync, count: ObjectCount) -> None:
        """`count` counts a ring again that has objects in the added namespaces."""
        self._ports = ports
        self._resync = resync
        self._count = count
        self._queue = WorkQueue[RingName](clock=ports.clock, rng=ports.rng, backoff=BACKOFF)
        self._added: dict[RingName, frozenset[str]] = {}

    def add(self, ring: RingName, added: frozenset[str]) -> None:
        """Add namespaces to the next pass over a ring; an empty set does nothing."""
        if added:
            self._added[ring] = self._added.get(ring, frozenset()) | added
            self._queue.add_after(ring, GATHER_SECONDS)

    async def run(self) -> None:
        """Run passes until cancelled."""
        await self._queue.run(self.reconcile, concurrency=CONCURRENCY)

    async def reconcile(self, name: RingName) -> float | None:
        """Pass over the added namespaces of one ring; return the seconds until the next pass."""
        snapshot, added = self._ports.cache.snapshot(name), self._added.pop(name, frozenset())
        if snapshot is None:
            return None
        added &= snapshot.namespaces
        if len(added) > MAX_NAMESPACES:
            self._ports.resync_ring(name)
            return None
        if not added:
            return None
        try:
            again = await self._resync.arrive(snapshot, added)
        except Superseded:
            again = AGAIN_SECONDS
        self._count.moved(name)
        if again is not None:
            self._added[name] = self._added.get(name, frozenset()) | added
        return again

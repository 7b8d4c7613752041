"""Reconcile only the namespaces that were added to a ring's scope.

Namespaces are added all the time, and a pass over the whole ring for each of them would keep the
leader busy forever.  So only the added namespaces are listed; a namespace that leaves the scope
needs no pass (docs/protocol.md, "Moving objects").
"""

from collections.abc import Callable

from sharder.controllers.cache import ClusterCache
from sharder.controllers.movement.resync.resync import Resync
from sharder.controllers.movement.writes.failures import BACKOFF
from sharder.controllers.movement.writes.mover import AGAIN_SECONDS, Superseded
from sharder.controllers.scope import MAX_NAMESPACES
from sharder.core.names import RingName
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.runtime.workqueue import WorkQueue

GATHER_SECONDS = 0.2
"""Seconds in which added namespaces are collected: many are created together, and their objects a
moment later."""

CONCURRENCY = 4
"""Rings that are handled at the same time."""


class Arrivals:
    """Passes over added namespaces, ring by ring."""

    def __init__(
        self,
        *,
        cache: ClusterCache,
        resync: Resync,
        resync_ring: Callable[[RingName], None],
        found: Callable[[RingName], None],
        clock: Clock,
        rng: Rng,
    ) -> None:
        """Set up the passes.

        Args:
            cache: Has the rings.
            resync: Passes over the namespaces.
            resync_ring: Requests a resync: too many namespaces were added.
            found: Called when the ring has objects in the added namespaces.
            clock: For the queue.
            rng: For the jitter of back-offs.
        """
        self._cache = cache
        self._resync = resync
        self._resync_ring = resync_ring
        self._found = found
        self._queue = WorkQueue[RingName](clock=clock, rng=rng, backoff=BACKOFF)
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
        snapshot, added = self._cache.snapshot(name), self._added.pop(name, frozenset())
        if snapshot is None:
            return None
        added &= snapshot.namespaces
        if len(added) > MAX_NAMESPACES:
            self._resync_ring(name)
            return None
        if not added:
            return None
        try:
            found, again = await self._resync.arrive(snapshot, added)
        except Superseded:
            found, again = False, AGAIN_SECONDS
        if found:
            self._found(name)
        if again is not None:
            self._added[name] = self._added.get(name, frozenset()) | added
        return again

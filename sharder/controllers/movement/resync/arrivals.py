"""Reconcile only the namespaces that were added to a ring's scope.

Namespaces are added all the time, and a pass over the whole ring for each of them would keep the
leader busy forever.  So only the added namespaces are listed; a namespace that leaves the scope
needs no pass (docs/protocol.md, "Moving objects").
"""

from collections.abc import Callable

from sharder.controllers.annotation_warnings import AnnotationWarnings
from sharder.controllers.cache import ClusterCache
from sharder.controllers.movement.resync.resync import AGAIN_SECONDS, Locks
from sharder.controllers.movement.resync.resync_lists import ResyncLists
from sharder.controllers.movement.resync.resync_pass import ResyncPass
from sharder.controllers.movement.writes.failures import BACKOFF
from sharder.controllers.movement.writes.mover import Mover, Superseded
from sharder.controllers.scope import MAX_NAMESPACES, ListRequest, ResourceKey
from sharder.core.names import RingName
from sharder.ports import Objects
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
        objects: Objects,
        mover: Mover,
        locks: Locks,
        annotation_warnings: AnnotationWarnings,
        resync_ring: Callable[[RingName], None],
        found: Callable[[RingName], None],
        clock: Clock,
        rng: Rng,
    ) -> None:
        """Set up the passes.

        Args:
            cache: Has the rings.
            objects: Reads the objects.
            mover: Writes the steps.
            locks: Shared with the resync and the hand-over.
            annotation_warnings: Records invalid labels and annotations.
            resync_ring: Requests a resync: too many namespaces were added, or objects cannot be
                read.
            found: Called when the ring has objects in the added namespaces.
            clock: For the queue, and for drains that wait for the budget.
            rng: For the jitter of back-offs.
        """
        self._cache = cache
        self._objects = objects
        self._mover = mover
        self._locks = locks
        self._annotation_warnings = annotation_warnings
        self._resync_ring = resync_ring
        self._found = found
        self._clock = clock
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
        lists = ResyncLists(
            snapshot,
            list_scope=tuple(ListRequest(namespace) for namespace in sorted(added)),
            objects=self._objects,
            mover=self._mover,
            annotation_warnings=self._annotation_warnings,
            on_list=_ignore,
            clock=self._clock,
        )
        try:
            await ResyncPass(snapshot, lists, mover=self._mover).run_over_arrivals(
                self._locks[name], added
            )
        except Superseded:
            again: float | None = AGAIN_SECONDS
        else:
            again = lists.deferred.again_in()
        if lists.stats.objects:
            self._found(name)
        if lists.problem is not None or lists.expired is not None:
            self._resync_ring(name)  # the resync reports the problem, and retries
            return None
        if again is not None:
            self._added[name] = self._added.get(name, frozenset()) | added
        return again


def _ignore(_resource_key: ResourceKey) -> None:
    """Count nothing: these are not all objects of the resource."""

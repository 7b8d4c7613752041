"""Bring every object of a ring to its shard.

Only the leader runs this: when the input of decisions has changed (shards, their annotations, the
ring; only new namespaces have a pass of their own), when a shard has too many objects, after the
first count, and once per sync period.  A pass over a counted ring lists the objects that might
have to move, other passes list all objects.

Memory does not grow with the number of objects: main objects are remembered only if they wait for
a drain and control others (docs/protocol.md, "Moving objects").
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from typing import Protocol

from sharder.controllers.annotation_warnings import AnnotationWarnings
from sharder.controllers.cache import ClusterCache
from sharder.controllers.counting.live_counts import LiveCounts
from sharder.controllers.counting.resync_stats import ResyncResult
from sharder.controllers.movement.resync.resync_lists import ResyncLists
from sharder.controllers.movement.resync.resync_pass import ResyncPass
from sharder.controllers.movement.writes.failures import Report
from sharder.controllers.movement.writes.mover import Mover, Superseded
from sharder.controllers.scope import scope_of
from sharder.core.errors import Unavailable
from sharder.core.leases.membership import Members
from sharder.core.names import RingName
from sharder.core.status.stats import ResyncReport
from sharder.ports import Objects
from sharder.runtime.clock import Clock

AGAIN_SECONDS = 1.0
"""Seconds until the pass after a superseded one; the change itself has queued the ring at once."""

EXPIRED_SECONDS = 5.0
"""Seconds until the next pass if a list took so long that etcd compacted its beginning.  This is
not a failure, so the delay does not grow: objects of a dead shard can be among the objects that
were not listed."""

LATE_SECONDS = 15.0
"""Seconds until the next pass after the shards of a ring changed, or objects were taken from
shards that are gone: a write that an outdated webhook has admitted can be stored this late.  It is
longer than webhook and request can take together."""

_log = logging.getLogger(__name__)

Locks = defaultdict[RingName, asyncio.Lock]
"""One lock per ring; only its holder is allowed to move owners together with their dependents."""


class ResyncMetrics(Protocol):
    """Records the duration of passes."""

    def resynced(self, ring: RingName, seconds: float) -> None:
        """Record the duration of a pass over all objects of the ring."""
        ...


class Resync:
    """Reconciles all objects of one ring at a time, by the ring's name."""

    def __init__(
        self,
        *,
        cache: ClusterCache,
        objects: Objects,
        mover: Mover,
        locks: Locks,
        annotation_warnings: AnnotationWarnings,
        report: Report,
        on_fault: Report,
        live: LiveCounts,
        passed: Callable[[RingName], None],
        metrics: ResyncMetrics,
        clock: Clock,
        sync_period: float,
    ) -> None:
        """Set up the resync.

        Args:
            cache: Has the rings.
            objects: Reads the objects.
            mover: Writes the steps.
            locks: Shared with the hand-over.
            annotation_warnings: Records invalid labels and annotations.
            report: Called with what could not be read.
            on_fault: Called with the error of the ring's strategy.
            live: Gets the counts of each whole pass.
            passed: Called with the ring after each whole pass.
            metrics: Records the durations.
            clock: For the times.
            sync_period: Seconds between two passes over a ring in which nothing changes.
        """
        self._cache = cache
        self._objects = objects
        self._mover = mover
        self._locks = locks
        self._annotation_warnings = annotation_warnings
        self._report = report
        self._on_fault = on_fault
        self._live = live
        self._passed = passed
        self._metrics = metrics
        self._clock = clock
        self._sync_period = sync_period
        self._since: dict[RingName, tuple[Members, float]] = {}
        """The members of each ring's last passes, and when the first of these passes ended."""
        self.results: dict[RingName, ResyncResult] = {}
        """The result of each ring's last whole pass."""

    async def reconcile(self, name: RingName) -> float | None:
        """Pass over the ring's objects; return the seconds until the next pass.

        A pass whose snapshot was replaced ends at once and starts again.

        Raises:
            ApiError: some objects could not be read.
        """
        snapshot = self._cache.snapshot(name)
        if snapshot is None:
            self._since.pop(name, None)
            self.results.pop(name, None)
            self._live.forget(name)
            return None
        began = self._clock.monotonic()
        list_scope = scope_of(snapshot.namespaces, self._cache.known_namespaces())
        lists = ResyncLists(
            snapshot,
            list_scope=list_scope,
            objects=self._objects,
            mover=self._mover,
            annotation_warnings=self._annotation_warnings,
            on_list=self._live.list_begins,
            clock=self._clock,
        )
        try:
            await ResyncPass(snapshot, lists, mover=self._mover).run(self._locks[name])
        except Superseded:
            return AGAIN_SECONDS
        if lists.problem is None and lists.expired is not None:
            _log.info(
                "resync list expired (410), restarting",
                extra={"ring": name, "error": str(lists.expired)},
            )
            return EXPIRED_SECONDS
        seconds = self._clock.monotonic() - began
        self._metrics.resynced(name, seconds)
        result = lists.stats.result(time=self._clock.now(), seconds=seconds)
        _log_report(name, result.report)
        if lists.problem is None:  # otherwise some objects were not listed
            self.results[name] = result
            self._live.counted(name, result.stats)
        self._report(name, lists.problem)
        self._on_fault(name, lists.stats.fault)
        self._passed(name)
        if lists.problem is not None:
            raise Unavailable(lists.problem)
        usual = self._next_in(name, snapshot.members, rescued=result.report.moved)
        return min(usual, lists.deferred.again_in() or usual)

    def _next_in(self, name: RingName, members: Members, *, rescued: int) -> float:
        """Return the seconds until the next pass, independent of passes in between."""
        now = self._clock.monotonic()
        if rescued or name not in self._since or self._since[name][0] != members:
            self._since[name] = members, now
        late = self._since[name][1] + LATE_SECONDS - now
        return min(late, self._sync_period) if late > 0 else self._sync_period


def _log_report(ring: RingName, report: ResyncReport) -> None:
    """Log what a pass did, at debug level if it changed nothing."""
    done = {
        "assigned": report.assigned,
        "moved": report.moved,
        "drained": report.drained,
        "failed": report.failed,
    }
    level = logging.INFO if any(done.values()) else logging.DEBUG
    _log.log(level, "resynced", extra={"ring": ring, **done, "seconds": round(report.seconds, 3)})

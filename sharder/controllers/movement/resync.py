"""Bring every object of a ring to the shard that the ring wants.

Only the leader runs this: when what steps depend on has changed (shards, what they say, the ring;
of its namespaces those that are new are passed over alone), when a shard has too many objects or
all have been counted, and once per sync period.  A pass over a ring that counts looks at what may
have to move, else at all objects.

Memory does not grow with the number of objects: of the main objects only those are remembered
that wait for a drain and control others (docs/protocol.md, "Moving objects").
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from typing import Protocol

from sharder.controllers.annotation_warnings import AnnotationWarnings
from sharder.controllers.cache import ClusterCache
from sharder.controllers.counting.resync_stats import ResyncResult
from sharder.controllers.movement.failures import Report
from sharder.controllers.movement.mover import Mover, Superseded
from sharder.controllers.movement.resync_lists import ResyncLists
from sharder.controllers.movement.resync_pass import ResyncPass
from sharder.controllers.scope import scope_of
from sharder.core.errors import Unavailable
from sharder.core.leases.membership import Members
from sharder.core.names import RingName
from sharder.core.status.stats import ObjectStats
from sharder.ports import Objects
from sharder.runtime.clock import Clock

AGAIN_SECONDS = 1.0
"""After a pass that was superseded: the change itself has queued the ring at once."""

EXPIRED_SECONDS = 5.0
"""After a pass of which a list took so long that etcd had forgotten its beginning.  That is no
fault, so the wait does not grow: the objects of a dead shard may be among those not seen."""

LATE_SECONDS = 15.0
"""After a pass over a ring whose shards had changed: what was admitted before, by a webhook that
did not know yet, may be stored only now.  Longer than webhook and request may take together.
After one that took objects from shards that are gone, too: a replica may give them more."""

_log = logging.getLogger(__name__)

Locks = defaultdict[RingName, asyncio.Lock]
"""One per ring: who holds it may move owners together with what they control."""


class Stopwatch(Protocol):
    """Takes the time of passes."""

    def resynced(self, ring: RingName, seconds: float) -> None:
        """A pass over all objects of the ring has ended."""
        ...


class Resync:
    """Reconciles all objects of one ring, by the ring's name."""

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
        passed: Callable[[RingName], None],
        stopwatch: Stopwatch,
        clock: Clock,
        sync_period: float,
    ) -> None:
        """Wire it.

        Args:
            cache: Has the rings.
            objects: What is read.
            mover: Writes.
            locks: Shared with the hand-over.
            annotation_warnings: Is told of labels and annotations that cannot be understood.
            report: Is told what could not be read.
            on_fault: Is told what the ring's strategy did wrong.
            passed: Is told the ring after each whole pass.
            stopwatch: Takes the times.
            clock: Likewise.
            sync_period: Seconds between two passes over a ring in which nothing changes.
        """
        self._cache = cache
        self._objects = objects
        self._mover = mover
        self._locks = locks
        self._annotation_warnings = annotation_warnings
        self._report = report
        self._on_fault = on_fault
        self._passed = passed
        self._stopwatch = stopwatch
        self._clock = clock
        self._sync_period = sync_period
        self._since: dict[RingName, tuple[Members, float]] = {}
        """By which members each ring's last passes were decided, and when the first one was."""
        self.results: dict[RingName, ResyncResult] = {}
        """What each ring's last whole pass has found and done."""

    async def reconcile(self, name: RingName) -> float | None:
        """Pass over the ring's objects; return in how many seconds to do so again.

        A pass whose snapshot is replaced ends at once, to begin anew.

        Raises:
            ApiError: some objects could not be read.
        """
        snapshot = self._cache.snapshot(name)
        if snapshot is None:
            self._since.pop(name, None)
            self.results.pop(name, None)
            return None
        began = self._clock.monotonic()
        list_scope = scope_of(snapshot.namespaces, self._cache.known_namespaces())
        lists = ResyncLists(
            snapshot,
            list_scope=list_scope,
            objects=self._objects,
            mover=self._mover,
            annotation_warnings=self._annotation_warnings,
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
        self._stopwatch.resynced(name, seconds)
        _log.info("resynced", extra={"ring": name, "why": f"{seconds:.1f}s"})
        time = self._clock.now()
        result = lists.stats.result(time=time, seconds=seconds)
        if lists.problem is None:  # else not all objects were looked at
            self.results[name] = result
        self._report(name, lists.problem)
        self._on_fault(name, lists.stats.fault)
        self._passed(name)
        if lists.problem is not None:
            raise Unavailable(lists.problem)
        usual = self._next_in(name, snapshot.members, rescued=result.report.moved)
        return min(usual, lists.deferred.again_in() or usual)

    def recounted(self, name: RingName, stats: ObjectStats) -> None:
        """Take newer figures of a ring than those of its last whole pass."""
        if name in self.results:
            self.results[name] = self.results[name]._replace(stats=stats)

    def _next_in(self, name: RingName, members: Members, *, rescued: int) -> float:
        """Return in how many seconds to pass again; whatever passes come in between."""
        now = self._clock.monotonic()
        if rescued or name not in self._since or self._since[name][0] != members:
            self._since[name] = members, now
        late = self._since[name][1] + LATE_SECONDS - now
        return min(late, self._sync_period) if late > 0 else self._sync_period

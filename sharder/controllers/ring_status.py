"""Write each ring's status at a limited rate."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sharder.controllers.cache import ClusterCache
from sharder.controllers.permissions import Watching
from sharder.controllers.shard_loads import shard_statuses
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import ControllerRing, LastRebalance, LastResync, RingStatus
from sharder.core.errors import NotFound
from sharder.core.fence.probe import Proof
from sharder.core.names import API_GROUP, API_VERSION, ObjectRef, RingName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.conditions import (
    FAILED,
    READY,
    DesiredCondition,
    Fault,
    condition_of,
    covered,
    exhausted,
    paused,
    ready,
    watched,
)
from sharder.core.status.fence_condition import fenced
from sharder.core.status.stats import (
    Apart,
    ObjectStats,
    Overdue,
    StatsOf,
)
from sharder.core.status.status import (
    MAX_SHARDS,
    StatusThrottle,
    encode_status,
    is_urgent,
    status_of,
    with_counts,
    with_rebalance,
)
from sharder.metrics.registry import Metrics
from sharder.ports import Recorder, Writable
from sharder.runtime.clock import Clock
from sharder.runtime.reflector import POLL_SECONDS

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RingFacts:
    """What the leader knows about each ring; most of it is None until it is known."""

    stats: StatsOf
    last_resync: Callable[[RingName], LastResync | None]
    """Returns the report of a ring's last complete pass."""
    overdue: Callable[[RingName], Overdue | None]
    """Returns a ring's overdue drains, None if there is none."""
    apart: Callable[[RingName], Apart | None]
    """Returns a ring's objects that are apart from their parents, None if there is none."""
    uncounted: Callable[[RingName], tuple[str, ...]]
    """Returns the parts of a ring that cannot be read, for people; their counts are old."""
    last_rebalance: Callable[[RingName], LastRebalance | None]
    """Returns the result of a ring's last rebalance."""
    fence: Callable[[RingName], Proof | None]
    """Returns the last proof of a ring's fence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """The status that was last written."""

    uid: str
    status: RingStatus


class StatusReports:
    """The status of each ring, as last written by this process."""

    def __init__(
        self,
        *,
        cache: ClusterCache,
        status: Writable[ControllerRing],
        fault_of: Callable[[RingName], Fault | None],
        watching: Watching,
        facts: RingFacts,
        recorder: Recorder,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        """Start with nothing written.

        Args:
            cache: Has the rings.
            status: Writes the status subresource.
            fault_of: Returns why a ring is not ready, None if it is ready.
            watching: Has the forbidden watches.
            facts: What the status says.
            recorder: Sends Events about new problems.
            metrics: Shows the conditions.
            clock: For the times.
        """
        self._cache = cache
        self._status = status
        self._fault_of = fault_of
        self._watching = watching
        self._facts = facts
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock
        self._sent: dict[RingName, _Sent] = {}
        self._paces: dict[RingName, StatusThrottle] = {}

    async def write(self, name: RingName) -> float | None:
        """Write the status if it changed; return the seconds until the next attempt, if any.

        The new status is compared with the status that we last sent, not with the stored one.  The
        stored status can be older than our last write, and lacks fields that an old CRD prunes,
        which would then be written again and again.
        """
        snapshot = self._cache.snapshot(name)
        if snapshot is None:
            return None
        pace, at = self._paces.setdefault(name, StatusThrottle()), self._clock.monotonic()
        before = self._before(snapshot.ring)
        after = self._after(snapshot, before, pace, at)
        waits = [pace.settles_in(at)]
        if after != before:
            due = pace.counts_due_in(at, rings=len(self._paces))
            if due and not is_urgent(after, before):
                waits.append(due)
            else:
                await self._write(snapshot.ring, before, after)
                pace.wrote(at)
                before = after
        self._metrics.show_conditions(name, {c.type: c.status for c in before.conditions})
        return min((wait for wait in waits if wait is not None), default=None)

    def forget(self, name: RingName) -> None:
        """Forget a deleted ring."""
        self._metrics.hide_conditions(name)
        self._sent.pop(name, None)
        self._paces.pop(name, None)

    def hide(self) -> None:
        """Hide all conditions: another replica shows them now."""
        for name in self._paces:
            self._metrics.hide_conditions(name)

    def _before(self, ring: ControllerRing) -> RingStatus:
        sent = self._sent.get(ring.name)
        return sent.status if sent is not None and sent.uid == ring.metadata.uid else ring.status

    def _after(
        self, snapshot: RingSnapshot, before: RingStatus, pace: StatusThrottle, at: float
    ) -> RingStatus:
        """Return the status at `at` (monotonic seconds)."""
        now, stats = self._clock.now(), self._facts.stats(snapshot.name)
        conditions = [
            condition
            for condition in self._conditions(snapshot, before, stats, now)
            if pace.is_settled(condition, condition_of(before, condition.type), at)
        ]
        after = status_of(
            snapshot.ring,
            before,
            shards=len(snapshot.members.validity.valid),
            available=len(snapshot.members.available),
            conditions=conditions,
            now=now,
        )
        last = self._facts.last_rebalance(snapshot.name)
        after = with_rebalance(after, snapshot.ring.spec.rebalance, last)
        if stats is None:
            return after
        return with_counts(
            after,
            stats,
            shards=shard_statuses(
                snapshot,
                stats,
                self._cache.membership,
                now=now,
                monotonic=at,
                most=MAX_SHARDS + 1,  # one more shows that there are more
            ),
            resync=self._facts.last_resync(snapshot.name),
            now=now,
        )

    def _conditions(
        self, snapshot: RingSnapshot, before: RingStatus, stats: ObjectStats | None, now: datetime
    ) -> list[DesiredCondition]:
        available, fault = len(snapshot.members.available), self._fault_of(snapshot.name)
        facts, movement = self._facts, snapshot.ring.spec.movement
        conditions = (
            ready(fault),
            watched(
                before,
                self._watching.refused(snapshot.name, snapshot.roles),
                snapshot.members.unable,
                polled_every=POLL_SECONDS,
            ),
            paused(before, movement),
            covered(
                stats,
                facts.overdue(snapshot.name),
                available=available,
                apart=facts.apart(snapshot.name),
                uncounted=facts.uncounted(snapshot.name),
            ),
            exhausted(stats, available=available),
            fenced(before, facts.fence(snapshot.name), snapshot.ring, snapshot.members, now),
        )
        return [condition for condition in conditions if condition is not None]

    async def _write(self, ring: ControllerRing, before: RingStatus, after: RingStatus) -> None:
        try:
            await self._status.patch(ObjectRef("", ring.name), encode_status(after))
        except NotFound:
            return
        self._sent[ring.name] = _Sent(uid=ring.metadata.uid, status=after)
        fault = self._fault_of(ring.name)
        known = condition_of(before, READY)
        if fault is not None and (known is None or known.message != fault.message):
            await self._warn(ring, fault.message)

    async def _warn(self, ring: ControllerRing, problem: str) -> None:
        _log.warning("ring not ready", extra={"ring": ring.name, "why": problem})
        await self._recorder.warn(about(ring), FAILED, problem)


def about(ring: ControllerRing) -> PartialObject:
    """Return a ring as the object of an Event."""
    return PartialObject(
        api_version=f"{API_GROUP}/{API_VERSION}",
        kind="ControllerRing",
        metadata=ring.metadata,
    )

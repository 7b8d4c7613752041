"""Write each ring's status at a limited rate."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sharder.controllers.movement.controller import Movement
from sharder.controllers.ports import Ports
from sharder.controllers.shard_loads import shard_statuses
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import ControllerRing, RingStatus
from sharder.core.errors import NotFound
from sharder.core.fence import Proof
from sharder.core.names import API_GROUP, API_VERSION, ObjectRef, RingName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.conditions import (
    FAILED,
    READY,
    DesiredCondition,
    Fault,
    ObjectStats,
    condition_of,
    covered,
    exhausted,
    paused,
    ready,
    watched,
)
from sharder.core.status.fence_condition import fenced
from sharder.core.status.status import (
    MAX_SHARDS,
    StatusThrottle,
    encode_status,
    is_urgent,
    status_of,
    with_counts,
)
from sharder.runtime.reflector import POLL_SECONDS

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """The status that was last written."""

    uid: str
    status: RingStatus


class StatusReports:
    """The status of each ring, as last written by this process."""

    def __init__(
        self,
        ports: Ports,
        movement: Movement,
        *,
        fault_of: Callable[[RingName], Fault | None],
        fence_of: Callable[[RingName], Proof | None],
    ) -> None:
        """Start with nothing written.

        `fault_of` returns why a ring is not ready, None if it is ready, and `fence_of` the last
        proof of its fence.
        """
        self._cache = ports.cache
        self._ports = ports
        self._movement = movement
        self._fault_of = fault_of
        self._fence_of = fence_of
        self._clock = ports.clock
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
        return min((wait for wait in waits if wait is not None), default=None)

    def forget(self, name: RingName) -> None:
        """Forget a deleted ring."""
        self._sent.pop(name, None)
        self._paces.pop(name, None)

    def _before(self, ring: ControllerRing) -> RingStatus:
        sent = self._sent.get(ring.name)
        return sent.status if sent is not None and sent.uid == ring.metadata.uid else ring.status

    def _after(
        self, snapshot: RingSnapshot, before: RingStatus, pace: StatusThrottle, at: float
    ) -> RingStatus:
        """Return the status at `at` (monotonic seconds)."""
        now, stats = self._clock.now(), self._movement.stats(snapshot.name)
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
            rebalanced=self._movement.rebalancer.last(snapshot.name),
            now=now,
        )
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
            resync=self._movement.resync.reports.get(snapshot.name),
            now=now,
        )

    def _conditions(
        self, snapshot: RingSnapshot, before: RingStatus, stats: ObjectStats | None, now: datetime
    ) -> list[DesiredCondition]:
        available, fault = len(snapshot.members.available), self._fault_of(snapshot.name)
        movement, ring = self._movement, snapshot.ring
        conditions = (
            ready(fault),
            watched(
                before,
                self._ports.watching.refused(snapshot.name, snapshot.roles),
                snapshot.members.unable,
                polled_every=POLL_SECONDS,
            ),
            paused(before, ring.spec.movement),
            covered(
                stats,
                movement.watches.overdue(snapshot.name),
                available=available,
                apart=movement.apart(snapshot.name),
                uncounted=movement.uncounted(snapshot.name),
            ),
            exhausted(stats, available=available),
            fenced(before, self._fence_of(ring.name), ring, snapshot.members, now),
        )
        return [condition for condition in conditions if condition is not None]

    async def _write(self, ring: ControllerRing, before: RingStatus, after: RingStatus) -> None:
        try:
            await self._ports.ring_status.patch(ObjectRef("", ring.name), encode_status(after))
        except NotFound:
            return
        self._sent[ring.name] = _Sent(uid=ring.metadata.uid, status=after)
        fault = self._fault_of(ring.name)
        known = condition_of(before, READY)
        if fault is not None and (known is None or known.message != fault.message):
            await self._warn(ring, fault.message)

    async def _warn(self, ring: ControllerRing, problem: str) -> None:
        _log.warning("ring not ready", extra={"ring": ring.name, "why": problem})
        await self._ports.recorder.warn(about(ring), FAILED, problem)


def about(ring: ControllerRing) -> PartialObject:
    """Return a ring as the object of an Event."""
    return PartialObject(
        api_version=f"{API_GROUP}/{API_VERSION}",
        kind="ControllerRing",
        metadata=ring.metadata,
    )

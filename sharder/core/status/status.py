"""The status of a ring, and how often its counts are written.

Counts change with every object, and each write of a status wakes every client that watches the
ring.  So counts are written some time after the last write, and a condition that follows from
counts alone flips only after it has lasted a while: an object that is handed over is unassigned
for a moment, and the objects of a dead shard are reassigned within seconds.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Final

import msgspec

from sharder.core.api.lease import to_the_second
from sharder.core.api.meta import Json
from sharder.core.api.ring import (
    Condition,
    ControllerRing,
    LastRebalance,
    LastResync,
    RebalanceSpec,
    RebalanceStrategy,
    RingStatus,
    ShardStatus,
)
from sharder.core.status.conditions import FROM_COUNTS, DesiredCondition, condition_of
from sharder.core.status.stats import ObjectStats, ResyncReport

MAX_SHARDS = 200
"""Shards that a status lists; with more the object would be large to read and to send."""


def status_of(
    ring: ControllerRing,
    before: RingStatus,
    *,
    shards: int,
    available: int,
    conditions: Iterable[DesiredCondition],
    now: datetime,
) -> RingStatus:
    """Return the status to report; equal to `before` if nothing has changed.

    Args:
        ring: As last seen.
        before: The present status of the ring; other fields are kept.
        shards: Number of valid Leases with the ring's label.
        available: Number of available shards.
        conditions: The desired conditions; those of other types are kept.
        now: The transition time of a condition that flips.
    """
    desired = {each.type: _condition(each, ring, before, now) for each in conditions}
    kept = {c.type: c for c in before.conditions if c.type not in desired}
    after = [c for c in (*kept.values(), *desired.values()) if c is not None]
    return msgspec.structs.replace(
        before,
        observed_generation=ring.metadata.generation,
        shards=shards,
        available_shards=available,
        conditions=tuple(sorted(after, key=lambda c: c.type)),
    )


def with_counts(
    status: RingStatus,
    stats: ObjectStats,
    *,
    shards: Collection[ShardStatus],
    resync: ResyncReport | None,
    now: datetime,
) -> RingStatus:
    """Return the status with the counts; `now` is when an object was first seen to wait."""
    fullest_first = sorted(shards, key=lambda shard: (-(shard.objects or 0), shard.name))
    return msgspec.structs.replace(
        status,
        objects=stats.objects,
        assigned=stats.objects - stats.unassigned,
        unassigned=stats.unassigned,
        unowned=stats.unowned,
        draining=stats.draining,
        oldest_unassigned_since=_since(status.oldest_unassigned_since, stats.unassigned, now),
        oldest_drain_since=_since(status.oldest_drain_since, stats.draining, now),
        shard_statuses=tuple(fullest_first[:MAX_SHARDS]),
        shard_statuses_truncated=len(shards) > MAX_SHARDS,
        last_resync=status.last_resync if resync is None else _last(resync),
    )


def with_rebalance(
    status: RingStatus, rebalance: RebalanceSpec, last: LastRebalance | None
) -> RingStatus:
    """Return the status with the last rebalancing run.

    Until this leader's first run, the result of the previous leader stays.  It is removed when
    rebalancing is switched off.
    """
    if rebalance.strategy is RebalanceStrategy.NONE:
        return msgspec.structs.replace(status, last_rebalance=None)
    return status if last is None else msgspec.structs.replace(status, last_rebalance=last)


def is_urgent(after: RingStatus, before: RingStatus) -> bool:
    """Return whether more than counts has changed."""
    return _urgent_part(after) != _urgent_part(before)


def encode_status(status: RingStatus) -> Json:
    """Return the merge patch of the ring's status.

    It has no resourceVersion: only the leader writes the status, from its own state, and an edit
    of the spec in the meantime must not make the write fail.
    """
    body: Json = msgspec.to_builtins(status)
    return {"status": body}


def _condition(
    desired: DesiredCondition, ring: ControllerRing, before: RingStatus, now: datetime
) -> Condition | None:
    """Return the condition with its transition time, None if it does not apply."""
    if desired.holds is None:
        return None
    known, since = condition_of(before, desired.type), to_the_second(now)
    if known is not None and known.status == desired.status:
        since = known.last_transition_time
    return Condition(
        type=desired.type,
        status=desired.status,
        reason=desired.reason,
        message=desired.message,
        observed_generation=ring.metadata.generation,
        last_transition_time=since,
    )


def _since(known: str | None, number: int, now: datetime) -> str | None:
    """Return since when the number is positive, None if it is 0."""
    return (known or to_the_second(now)) if number else None


def _last(resync: ResyncReport) -> LastResync:
    return LastResync(
        time=to_the_second(resync.time),
        duration_seconds=round(resync.seconds, 3),
        assigned=resync.assigned,
        moved=resync.moved,
        drained=resync.drained,
        conflicts=resync.conflicts,
    )


def _urgent_part(status: RingStatus) -> tuple[object, ...]:
    conditions = [
        msgspec.structs.replace(c, message="") if c.type in FROM_COUNTS else c
        for c in status.conditions
    ]
    is_counted = status.objects is not None  # the first counts are written at once
    return (
        status.observed_generation,
        status.shards,
        status.available_shards,
        conditions,
        is_counted,
    )


COUNTS_SECONDS: Final = 30.0
"""Minimum time between two writes of a ring's status because of counts."""

MOVING_SECONDS: Final = 1.0
"""The same while objects move, as long as they do so in few rings."""

WRITES_PER_SECOND: Final = 20
"""Status writes of all moving rings together."""


def pause_of(moving: int) -> float:
    """Return the seconds between two writes of each of so many moving rings."""
    return max(MOVING_SECONDS, moving / WRITES_PER_SECOND)


SETTLE_SECONDS: Final = 5.0
"""How long counts must agree before a condition that follows from them flips."""


class StatusThrottle:
    """When one ring's status was and can be written; times are monotonic seconds."""

    def __init__(self) -> None:
        self._wrote: float | None = None
        self._unsettled: dict[str, tuple[DesiredCondition, float]] = {}

    def is_settled(self, desired: DesiredCondition, known: Condition | None, at: float) -> bool:
        """Return whether the desired condition can replace `known` now.

        A condition that does not follow from counts alone can at once, and so can a first one.
        """
        if not desired.counted or known is None or desired.is_met_by(known):
            self._unsettled.pop(desired.type, None)
            return True
        before, since = self._unsettled.get(desired.type, (desired, at))
        if before.reason != desired.reason:
            since = at
        self._unsettled[desired.type] = desired, since
        return at - since >= SETTLE_SECONDS

    def wrote(self, at: float) -> None:
        """Note that the status was written."""
        self._wrote = at

    def counts_due_in(self, at: float, *, moving: int) -> float:
        """Return in how many seconds counts can be written, 0 if they can now.

        `moving` is how many rings have moving objects, 0 if this one has none.
        """
        pause = min(COUNTS_SECONDS, pause_of(moving)) if moving else COUNTS_SECONDS
        return 0.0 if self._wrote is None else max(0.0, self._wrote + pause - at)

    def settles_in(self, at: float) -> float | None:
        """Return in how many seconds a condition can settle, None if none is unsettled."""
        waits = [since + SETTLE_SECONDS - at for _, since in self._unsettled.values()]
        return min((wait for wait in waits if wait > 0), default=None)

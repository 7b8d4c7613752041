"""What the sharder says about a ring in its status; pure.

How fast the status of a ring follows what is counted; no clock.

Counts change with every object, and each write of a status wakes everybody who watches the ring.
So a count is written some time after the last write, and a condition that rests on counts alone
flips when it has been the other one for a while: an object that is handed over has no owner for
a moment, and a shard that died leaves its objects to others within seconds.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Final

import msgspec

from sharder.core.api.lease import format_time
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
"""Shards that a status lists: more would make an object that is long to read and to send."""


def status_of(
    ring: ControllerRing,
    before: RingStatus,
    *,
    shards: int,
    available: int,
    claims: Iterable[DesiredCondition],
    now: datetime,
) -> RingStatus:
    """Return the status to report; equal to `before` if there is nothing new to say.

    Args:
        ring: As last seen.
        before: The status that the ring has; what is not said here is kept.
        shards: Number of valid Leases with the ring's label.
        available: Number of shards that may own objects.
        claims: What conditions are to say; those of other types are kept.
        now: Becomes the transition time where a condition flips.
    """
    said = {claim.type: _condition(claim, ring, before, now) for claim in claims}
    kept = {c.type: c for c in before.conditions if c.type not in said}
    conditions = [c for c in (*kept.values(), *said.values()) if c is not None]
    return msgspec.structs.replace(
        before,
        observed_generation=ring.metadata.generation,
        shards=shards,
        available_shards=available,
        conditions=tuple(sorted(conditions, key=lambda c: c.type)),
    )


def with_counts(
    status: RingStatus,
    figures: ObjectStats,
    *,
    shards: Collection[ShardStatus],
    resync: ResyncReport | None,
    now: datetime,
) -> RingStatus:
    """Return the status with what is counted; `now` is when something was first seen to wait."""
    fullest_first = sorted(shards, key=lambda shard: (-(shard.objects or 0), shard.name))
    return msgspec.structs.replace(
        status,
        objects=figures.objects,
        assigned=figures.objects - figures.unassigned,
        unassigned=figures.unassigned,
        draining=figures.draining,
        oldest_unassigned_since=_since(status.oldest_unassigned_since, figures.unassigned, now),
        oldest_drain_since=_since(status.oldest_drain_since, figures.draining, now),
        shard_statuses=tuple(fullest_first[:MAX_SHARDS]),
        shard_statuses_truncated=len(shards) > MAX_SHARDS,
        last_resync=status.last_resync if resync is None else _last(resync),
    )


def with_rebalance(
    status: RingStatus, rebalance: RebalanceSpec, last: LastRebalance | None
) -> RingStatus:
    """Return the status with the last look at the balance.

    As long as this leader has not looked, what the one before has found stays; of a ring that is
    balanced no more it would say what will never be.
    """
    if rebalance.strategy is RebalanceStrategy.NONE:
        return msgspec.structs.replace(status, last_rebalance=None)
    return status if last is None else msgspec.structs.replace(status, last_rebalance=last)


def is_urgent(after: RingStatus, before: RingStatus) -> bool:
    """Return whether more has changed than what is counted."""
    return _urgent_part(after) != _urgent_part(before)


def encode_status(status: RingStatus) -> Json:
    """Return the merge patch of the ring's status.

    It carries no resourceVersion: the leader alone writes it, from what it knows, and the user's
    edit of the spec in the meantime is no reason to keep silent.
    """
    body: Json = msgspec.to_builtins(status)
    return {"status": body}


def _condition(
    claim: DesiredCondition, ring: ControllerRing, before: RingStatus, now: datetime
) -> Condition | None:
    """Return the condition with the time at which it became what it is."""
    if claim.holds is None:
        return None
    known, since = condition_of(before, claim.type), to_the_second(now)
    if known is not None and known.status == claim.status:
        since = known.last_transition_time
    return Condition(
        type=claim.type,
        status=claim.status,
        reason=claim.reason,
        message=claim.message,
        observed_generation=ring.metadata.generation,
        last_transition_time=since,
    )


def _since(known: str | None, number: int, now: datetime) -> str | None:
    """Return since when there are some; as long as there were some at each look, it stays."""
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
    is_counted = status.objects is not None  # until then people see nothing at all
    return (
        status.observed_generation,
        status.shards,
        status.available_shards,
        conditions,
        is_counted,
    )


def to_the_second(instant: datetime) -> str:
    """Return the instant as metav1.Time writes it, which takes no fraction."""
    return format_time(instant)[:19] + "Z"


COUNTS_SECONDS: Final = 30.0
"""Between two writes of a ring's status for the sake of counts."""

SETTLE_SECONDS: Final = 5.0
"""For so long every look must have found what would flip a condition."""


class StatusThrottle:
    """The little that has to be remembered of one ring; times are monotonic seconds."""

    def __init__(self) -> None:
        self._wrote: float | None = None
        self._doubts: dict[str, tuple[DesiredCondition, float]] = {}

    def believes(self, claim: DesiredCondition, known: Condition | None, at: float) -> bool:
        """Return whether the condition `known` is to say what is claimed now.

        What follows from more than counts is believed at once, and so is the first word.
        """
        if not claim.counted or known is None or claim.is_said(known):
            self._doubts.pop(claim.type, None)
            return True
        doubted, since = self._doubts.get(claim.type, (claim, at))
        if doubted.reason != claim.reason:
            since = at
        self._doubts[claim.type] = claim, since
        return at - since >= SETTLE_SECONDS

    def wrote(self, at: float) -> None:
        """Take note that the status was written."""
        self._wrote = at

    def counts_due_in(self, at: float) -> float:
        """Return in how many seconds counts may be written, 0 if they may now."""
        return 0.0 if self._wrote is None else max(0.0, self._wrote + COUNTS_SECONDS - at)

    def settles_in(self, at: float) -> float | None:
        """Return in how many seconds a doubt may turn out to be right, None if there is none."""
        waits = [since + SETTLE_SECONDS - at for _, since in self._doubts.values()]
        return min((wait for wait in waits if wait > 0), default=None)

"""What the sharder says about a ring in its status; pure."""

from collections.abc import Collection, Iterable
from datetime import datetime

import msgspec

from sharder.api.lease import format_time
from sharder.api.meta import Json
from sharder.api.ring import (
    Condition,
    ControllerRing,
    LastRebalance,
    LastResync,
    RebalanceSpec,
    RebalanceStrategy,
    RingStatus,
    ShardStatus,
)
from sharder.controllers.conditions import FROM_COUNTS, Claim, condition_of
from sharder.figures import Figures, ResyncReport

MAX_SHARDS = 200
"""Shards that a status lists: more would make an object that is long to read and to send."""


def status_of(
    ring: ControllerRing,
    before: RingStatus,
    *,
    shards: int,
    available: int,
    claims: Iterable[Claim],
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
    figures: Figures,
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
    """Tell whether more has changed than what is counted."""
    return _urgent_part(after) != _urgent_part(before)


def encode_status(status: RingStatus) -> Json:
    """Return the merge patch of the ring's status.

    It carries no resourceVersion: the leader alone writes it, from what it knows, and the user's
    edit of the spec in the meantime is no reason to keep silent.
    """
    body: Json = msgspec.to_builtins(status)
    return {"status": body}


def _condition(
    claim: Claim, ring: ControllerRing, before: RingStatus, now: datetime
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

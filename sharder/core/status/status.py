"""The status of a ring, and how often its counts are written.

Counts change with every object, and each write of a status is sent to every client that watches
the ring.  So there is a minimum time between two writes of counts.  A condition that follows from
counts alone changes only after the counts have agreed for a while, because an object is unassigned
for a moment during a hand-over, and the objects of a dead shard are reassigned within seconds.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from sharder.core.api.lease import parse_time, to_the_second
from sharder.core.api.ring import (
    Condition,
    ControllerRing,
    LastRebalance,
    LastResync,
    RebalanceStrategy,
    RingStatus,
    ShardStatus,
)
from sharder.core.fence import Fence, NoFence, Proof, UnknownFence, digest_of, how_to_apply
from sharder.core.leases.membership import Members
from sharder.core.names import ObjectRef, is_subdomain
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.conditions import (
    FALSE,
    FROM_COUNTS,
    TRUE,
    UNKNOWN,
    ObjectStats,
    condition_of,
    is_counted,
)
from sharder.core.texts import counted, named

MAX_SHARDS = 200
"""Maximum shards that a status lists, to bound its size."""


def status_of(
    snapshot: RingSnapshot,
    before: RingStatus,
    *,
    conditions: Iterable[Condition],
    rebalanced: LastRebalance | None = None,
    now: datetime,
) -> RingStatus:
    """Return the status to report; equal to `before` if nothing has changed.

    Args:
        snapshot: The ring, as last seen.
        before: The present status of the ring; fields that are not set here are kept.
        conditions: The desired conditions, of which one without a status is removed; conditions
            of other types are kept.
        rebalanced: The last run of this leader; until the first one, that of the previous leader
            is kept, if the ring is rebalanced at all.
        now: The transition time for each condition that changes its status.
    """
    ring, members = snapshot.ring, snapshot.members
    desired = {each.type: _dated(each, ring, before, now) for each in conditions}
    after = {c.type: c for c in before.conditions} | desired
    is_off = ring.spec.rebalance.strategy is RebalanceStrategy.NONE
    return msgspec.structs.replace(
        before,
        observed_generation=ring.metadata.generation,
        shards=len(members.validity.valid),
        available_shards=len(members.available),
        conditions=tuple(after[name] for name in sorted(after) if after[name].status),
        last_rebalance=None if is_off else rebalanced or before.last_rebalance,
    )


def with_counts(
    status: RingStatus,
    stats: ObjectStats,
    *,
    shards: Sequence[ShardStatus],
    resync: LastResync | None,
    now: datetime,
) -> RingStatus:
    """Return the status with the counts; of `shards`, it lists the first `MAX_SHARDS`.

    `now` becomes the time since which objects are unassigned or draining, if none was before.
    """
    return msgspec.structs.replace(
        status,
        objects=stats.objects,
        assigned=stats.objects - stats.unassigned,
        unassigned=stats.unassigned,
        unowned=stats.unowned,
        draining=stats.draining,
        uncontrolled=stats.uncontrolled,
        oldest_unassigned_since=_since(status.oldest_unassigned_since, stats.unassigned, now),
        oldest_drain_since=_since(status.oldest_drain_since, stats.draining, now),
        shard_statuses=tuple(shards[:MAX_SHARDS]),
        shard_statuses_truncated=len(shards) > MAX_SHARDS,
        last_resync=resync or status.last_resync,
    )


def is_urgent(after: RingStatus, before: RingStatus) -> bool:
    """Return whether anything other than counts has changed."""
    return _urgent_part(after) != _urgent_part(before)


def _dated(
    desired: Condition, ring: ControllerRing, before: RingStatus, now: datetime
) -> Condition:
    """Return the condition with its transition time."""
    known, since = condition_of(before, desired.type), to_the_second(now)
    if known is not None and known.status == desired.status:
        since = known.last_transition_time
    return msgspec.structs.replace(
        desired, observed_generation=ring.metadata.generation, last_transition_time=since
    )


def _since(known: str | None, number: int, now: datetime) -> str | None:
    """Return the time since which the number is positive, None if it is 0."""
    return (known or to_the_second(now)) if number else None


def _urgent_part(status: RingStatus) -> tuple[object, ...]:
    conditions = [
        msgspec.structs.replace(c, message="") if c.type in FROM_COUNTS else c
        for c in status.conditions
    ]
    is_counted = status.objects is not None  # The first counts are written at once.
    return (
        status.observed_generation,
        status.shards,
        status.available_shards,
        conditions,
        is_counted,
        status.last_rebalance,
    )


WRITES_PER_SECOND: Final = 20
"""Maximum writes of statuses per second because of counts, for all rings together."""

MIN_SECONDS, MAX_SECONDS = 1.0, 30.0
"""The least and the most seconds between two writes of a ring's status because of counts."""

SETTLE_SECONDS: Final = 5.0
"""Seconds for which counts must agree before a condition that follows from them changes."""


class StatusThrottle:
    """When one ring's status was written and can be written again; times are monotonic seconds."""

    def __init__(self) -> None:
        self._wrote: float | None = None
        self._unsettled: dict[str, tuple[Condition, float]] = {}

    def is_settled(self, desired: Condition, known: Condition | None, at: float) -> bool:
        """Return whether the desired condition can replace `known` now.

        A condition that does not follow from counts alone, or is new, can replace it at once.
        """
        is_met = known is None or (known.status, known.reason) == (desired.status, desired.reason)
        if is_met or not is_counted(desired):
            self._unsettled.pop(desired.type, None)
            return True
        before, since = self._unsettled.get(desired.type, (desired, at))
        if before.reason != desired.reason:
            since = at
        self._unsettled[desired.type] = desired, since
        return at - since >= SETTLE_SECONDS

    def wrote(self, at: float) -> None:
        """Record that the status was written."""
        self._wrote = at

    def counts_due_in(self, at: float, *, rings: int) -> float:
        """Return the seconds until counts can be written; `rings` share the writes."""
        pause = min(MAX_SECONDS, max(MIN_SECONDS, rings / WRITES_PER_SECOND))
        return 0.0 if self._wrote is None else max(0.0, self._wrote + pause - at)

    def settles_in(self, at: float) -> float | None:
        """Return the seconds until the next condition can change, None if none is waiting."""
        waits = [since + SETTLE_SECONDS - at for _, since in self._unsettled.values()]
        return min((wait for wait in waits if wait > 0), default=None)


FENCED: Final = "Fenced"
ENFORCED, NOT_INSTALLED, OUTDATED = "Enforced", "NotInstalled", "Outdated"

FORGOTTEN_AFTER: Final = timedelta(days=1)
"""How long a missing fence is reported.  If it is missing longer, its removal is intended."""


def fenced(
    before: RingStatus,
    proof: Proof | None,
    ring: ControllerRing,
    members: Members,
    now: datetime,
) -> Condition | None:
    """Return whether the ring's fence is in force, None to keep the condition as it is.

    A ring that never had a fence, or whose fence was removed on purpose, has no such condition.
    The sharder cannot see whether a removal is intended, so the condition is False for a day
    first.

    Args:
        before: The present status of the ring.
        proof: The result of the last dry run, None before the first one.
        ring: The ring, which determines the rules that its fence should have.
        members: The members; the fence has to be able to recognize the available ones.
        now: The present time (aware), compared with the time since which the fence is missing.
    """
    known = condition_of(before, FENCED)
    match proof:
        case Fence():
            return _by(proof, ring, members)
        case NoFence() if known is not None:
            if _is_forgotten(known, now):
                return Condition(FENCED, "")
            advice = how_to_apply(ring.name)
            return Condition(
                FENCED,
                FALSE,
                NOT_INSTALLED,
                f"the API server no longer enforces the fence; {advice}",
            )
        case UnknownFence(why) if known is not None:
            return Condition(FENCED, UNKNOWN, UNKNOWN, f"cannot verify the fence: {why}")
        case _:
            return None


def _is_forgotten(known: Condition, now: datetime) -> bool:
    """Return whether the fence has been missing for so long that it was removed on purpose."""
    since = parse_time(known.last_transition_time)
    if known.reason != NOT_INSTALLED or since is None:
        return False
    return now - since >= FORGOTTEN_AFTER


def _by(fence: Fence, ring: ControllerRing, members: Members) -> Condition:
    expected = digest_of(ring)
    if fence.digest != expected:
        return Condition(
            FENCED,
            FALSE,
            OUTDATED,
            f"the fence is outdated: its rules are {fence.digest}, expected {expected}; "
            f"{how_to_apply(ring.name)}",
        )
    strangers = _strangers(fence, members)
    if strangers:
        first = f"e.g. Lease {strangers[0]}" if len(strangers) > 1 else f"Lease {strangers[0]}"
        return Condition(
            FENCED,
            UNKNOWN,
            UNKNOWN,
            f"cannot verify that the fence covers {counted(len(strangers), 'shard')}, {first}: "
            "the name is not valid for a pod, or the fence has no ServiceAccount in the namespace",
        )
    return Condition(
        FENCED,
        TRUE,
        ENFORCED,
        f"shards that run as {named(fence.users)} cannot write to objects of other shards",
    )


def _strangers(fence: Fence, members: Members) -> list[ObjectRef]:
    """Return the Leases of available shards that the fence cannot recognize.

    It has no account in their namespaces, or no pod can have their names.  If a Lease just has
    another name than its pod, the fence itself rejects the shard.
    """
    leases = (ObjectRef(members.namespaces[shard], shard) for shard in members.available)
    return sorted(
        ref
        for ref in leases
        if ref.namespace not in fence.namespaces or not is_subdomain(ref.name)
    )

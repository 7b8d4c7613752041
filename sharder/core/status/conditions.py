"""The conditions of a ring, without their transition times, and the numbers that they follow from.

Counts change all the time.  The types of conditions that follow from them are in `FROM_COUNTS`,
so that a new number in a message does not cause a write of the status.  `is_counted` says whether
a single condition follows from counts alone, so that an object in transit does not cause a write
either.  Any other condition, even one of these types, is reported at once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from sharder.core.api.ring import Condition, MovementSpec, RingStatus
from sharder.core.leases.membership import Members, Standing
from sharder.core.names import GroupResource, RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.texts import counted, named


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStats:
    """Numbers of objects of a ring's main resources at one moment."""

    objects: int
    """The objects in scope, assigned or not."""
    unassigned: int
    """The objects without an owner label."""
    draining: int
    """The draining objects."""
    by_shard: Mapping[ShardName, int]
    """The number of objects of each shard, draining ones included; no entry means 0."""
    has_room: bool | None
    """Whether any shard has room for one more object; None: the strategy has no ceilings."""
    unowned: int
    """The objects without an available owner."""
    uncontrolled: int = 0
    """Objects of controlled resources that have no controller; no other number counts these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubled:
    """Some objects of a ring, at least one, that are all in the same trouble.

    Their drains exceed its `drainTimeout`, or they are controlled objects that are not on the
    shards of their parents because they could not be written.
    """

    count: int
    first: str
    """One of the objects: resource, namespace and name."""


class Waiting(NamedTuple):
    """Numbers of objects of a ring, as watches show them."""

    unassigned: int | None
    """None: there are more than the sharder remembers."""
    draining: int | None
    """None: there are more than the sharder remembers."""


def unowned_of(members: Members, by_shard: Mapping[ShardName, int], unassigned: int) -> int:
    """Return the number of objects without an available owner."""
    standing_of = members.standing_of
    stray = (n for s, n in by_shard.items() if standing_of(s) is not Standing.AVAILABLE)
    return unassigned + sum(stray)


def stats_of(snapshot: RingSnapshot) -> ObjectStats | None:
    """Return the counts of the ring's tally, None if it has none, or before the first list.

    A move that is only planned does not count; but there is room for what it has reserved.
    """
    tally = snapshot.tally
    if tally is None or not tally.synced:
        return None
    shown = tally.shown_on_each()
    by_shard = {shard: objects for shard, objects in shown.items() if shard is not None}
    return ObjectStats(
        objects=shown.total(),
        unassigned=shown[None],
        draining=tally.draining,
        by_shard=by_shard,
        has_room=not tally.unassigned or snapshot.placer.has_room(tally),
        unowned=unowned_of(snapshot.members, by_shard, shown[None]),
    )


StatsOf: TypeAlias = Callable[[RingName], ObjectStats | None]
"""Returns the statistics of a ring, None if its objects were not counted yet."""


TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"

READY: Final = "Ready"
SUCCEEDED, FAILED = "ReconciliationSucceeded", "ReconciliationFailed"
NOT_READY: Final = {
    "spec": "InvalidSpec",
    "shards": "DuplicateShardNames",
    "strategy": "StrategyFailed",
    "resync": "ResourceUnreadable",
    "write": "WriteForbidden",
}
"""Why a ring is not ready, by the source of the problem, the most important first: a person has to
act.  For all other sources it is `FAILED`: the sharder retries and might succeed."""

WATCHED: Final = "Watched"
ALLOWED, MISSING, UNABLE = "WatchAllowed", "WatchMissing", "ShardUnable"
COVERED: Final = "Covered"
OWNED, UNOWNED, NO_SHARDS = "AllOwned", "ObjectsUnassigned", "NoShards"
UNCOUNTED: Final = "ObjectsUncounted"
OVERDUE: Final = "DrainOverdue"
APART: Final = "ControlledObjectsApart"
EXHAUSTED: Final = "CapacityExhausted"
INSUFFICIENT, SUFFICIENT = "InsufficientCapacity", "SufficientCapacity"
PAUSED: Final = "Paused"
STOPPED, ACTIVE = "MovementPaused", "MovementActive"

AT_CAPACITY: Final = "all shards are at capacity; add shards, or raise their ceilings"
"""Why objects cannot be assigned, and what to do about it."""

VERBS: Final = "get, list, watch, patch"
"""The verbs that the sharder needs on the objects of a ring."""

FROM_COUNTS: Final = frozenset({COVERED, EXHAUSTED})
"""Types whose message can contain a number of objects."""


def is_counted(condition: Condition) -> bool:
    """Return whether it follows from counts alone, so it might change again within seconds."""
    return condition.reason in {OWNED, UNOWNED, APART, SUFFICIENT, INSUFFICIENT}


def ready(problems: Mapping[str, str | None]) -> Condition:
    """Return whether the ring is ready: no source has a problem."""
    known = {source: problem for source, problem in problems.items() if problem}
    if not known:
        return Condition(READY, TRUE, SUCCEEDED, "ring is ready")
    reasons = (reason for source, reason in NOT_READY.items() if source in known)
    text = "; ".join(known[source] for source in sorted(known))
    return Condition(READY, FALSE, next(reasons, FAILED), text)


def watched(
    before: RingStatus,
    unwatched: Sequence[GroupResource] | None,
    unable: Mapping[ShardName, str],
    *,
    polled_every: float,
) -> Condition | None:
    """Return whether the sharder and the shards can watch, None to keep the condition as it is.

    A ring whose resources could always be watched has no such condition.

    Args:
        before: The present status of the ring.
        unwatched: Resources that the sharder is not allowed to watch, in order; None if not known
            yet.
        unable: Shards that cannot work, and why, as they say on their Leases.
        polled_every: Seconds between two polls of such a resource.
    """
    if unable and not unwatched:
        first = min(unable)
        others = f" and {counted(len(unable) - 1, 'other shard')}" if len(unable) > 1 else ""
        message = f"shard {first}{others} cannot work: {unable[first]}"
        return Condition(WATCHED, FALSE, UNABLE, message)
    if unwatched is None or (condition_of(before, WATCHED) is None and not unwatched):
        return None
    if not unwatched:
        message = "the sharder and all shards can watch the resources of the ring"
        return Condition(WATCHED, TRUE, ALLOWED, message)
    return Condition(
        WATCHED,
        FALSE,
        MISSING,
        f"not allowed to watch, polling every {polled_every:.0f}s; {advice(unwatched)}",
    )


def advice(resources: Sequence[GroupResource]) -> str:
    """Return the rules to add to the sharder's role."""
    rules = " and ".join(
        f'{{apiGroups: ["{group}"], resources: [{resource}], verbs: [{VERBS}]}}'
        for group, resource in resources
    )
    return f"add {rules} to the sharder's role (chart value rings)"


def paused(before: RingStatus, movement: MovementSpec) -> Condition | None:
    """Return whether movement is paused, None to keep the condition as it is.

    A ring that was never paused has no such condition.
    """
    if movement.paused:
        message = "movement is paused; only objects whose shard is gone are reassigned"
        return Condition(PAUSED, TRUE, STOPPED, message)
    if condition_of(before, PAUSED) is None:
        return None
    return Condition(PAUSED, FALSE, ACTIVE, "movement is active")


def covered(
    stats: ObjectStats | None,
    overdue: Troubled | None,
    *,
    available: int,
    apart: Troubled | None = None,
    uncounted: Sequence[str] = (),
) -> Condition | None:
    """Return whether all objects have an available owner, None if they were not counted yet.

    This also requires that no drain is overdue, and that controlled objects are on the shards of
    their parents.  It is Unknown while some parts of the ring, `uncounted`, cannot be read.

    A leader that has not counted yet already knows whether shards are available and which drains
    are overdue.
    """
    if not available:
        message = "no shard is available"
        return Condition(COVERED, FALSE, NO_SHARDS, message)
    unowned = 0 if stats is None else stats.unowned
    message = f"{counted(unowned, 'object')} without an available owner"
    if uncounted:
        known = f"; by the last counts, {message}" if unowned else ""
        return Condition(
            COVERED, UNKNOWN, UNCOUNTED, f"cannot read {named(uncounted)}; see Ready{known}"
        )
    if unowned:
        return Condition(
            COVERED,
            FALSE,
            UNOWNED,
            message if overdue is None else f"{message}; {_late(overdue)}",
        )
    if overdue is not None:
        return Condition(COVERED, FALSE, OVERDUE, _late(overdue))
    if apart is not None:
        is_one = apart.count == 1
        message = (
            f"{counted(apart.count, 'controlled object')} {'is' if is_one else 'are'} not on the "
            f"shard of the parent{_such_as(apart.count, apart.first)}; see the object's Events"
        )
        return Condition(COVERED, FALSE, APART, message)
    if stats is None:
        return None
    message = "every object has an available owner"
    return Condition(COVERED, TRUE, OWNED, message)


def exhausted(stats: ObjectStats | None, *, available: int) -> Condition | None:
    """Return whether objects wait because no shard has room, None to keep the condition as it is.

    If no shard is available, capacity is not the problem.
    """
    if stats is None:
        return None
    if stats.has_room is None:
        return Condition(EXHAUSTED, "")
    if not available:
        return None
    if not stats.unassigned or stats.has_room:
        message = "no object waits for room on a shard"
        return Condition(EXHAUSTED, FALSE, SUFFICIENT, message)
    many = counted(stats.unassigned, "object")
    return Condition(EXHAUSTED, TRUE, INSUFFICIENT, f"{many} cannot be assigned: {AT_CAPACITY}")


def condition_of(status: RingStatus, name: str) -> Condition | None:
    """Return the condition with the type `name`, None if there is none."""
    return next((c for c in status.conditions if c.type == name), None)


def _late(overdue: Troubled) -> str:
    exceed = "exceeds" if overdue.count == 1 else "exceed"
    many = counted(overdue.count, "drain")
    return (
        f"{many} {exceed} spec.movement.drainTimeout{_such_as(overdue.count, overdue.first)}; "
        "see the object's Events"
    )


def _such_as(count: int, first: str) -> str:
    """Return words that name the first of `count` objects, as the only one or as an example."""
    return f": {first}" if count == 1 else f", e.g. {first}"

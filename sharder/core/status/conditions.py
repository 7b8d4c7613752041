"""The conditions of a ring, without their transition times.

Some follow from counts, which change all the time.  Their types are in `FROM_COUNTS`, so that a
new number in a message causes no write of the status.  `DesiredCondition.counted` is for a single
condition, so that an object in transit causes none either.  A condition of such a type that does
not follow from counts is reported at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sharder.core.api.ring import Condition, MovementSpec, RingStatus
from sharder.core.names import GroupResource
from sharder.core.status.stats import ObjectStats, Overdue

READY: Final = "Ready"
SUCCEEDED, FAILED = "ReconciliationSucceeded", "ReconciliationFailed"
WATCHED: Final = "Watched"
ALLOWED, MISSING = "WatchAllowed", "WatchMissing"
COVERED: Final = "Covered"
OWNED, UNOWNED, NO_SHARDS = "AllOwned", "ObjectsUnassigned", "NoShards"
OVERDUE: Final = "DrainOverdue"
EXHAUSTED: Final = "CapacityExhausted"
INSUFFICIENT, SUFFICIENT = "InsufficientCapacity", "SufficientCapacity"
PAUSED: Final = "Paused"
STOPPED, ACTIVE = "MovementPaused", "MovementActive"

VERBS: Final = "get, list, watch, patch"
"""The verbs that the sharder needs on the objects of a ring."""

FROM_COUNTS: Final = frozenset({COVERED, EXHAUSTED})
"""Types whose message can contain a number of objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredCondition:
    """A condition that a ring should have."""

    type: str
    holds: bool | None
    """None: the condition does not apply to the ring and is removed."""
    reason: str = ""
    message: str = ""
    counted: bool = False
    """Whether it follows from counts alone, and can change in a moment."""

    @property
    def status(self) -> str:
        """The condition's status."""
        return "True" if self.holds else "False"

    def is_met_by(self, known: Condition | None) -> bool:
        """Return whether `known` has the same status and reason."""
        if known is None or self.holds is None:
            return known is None and self.holds is None
        return (known.status, known.reason) == (self.status, self.reason)


def ready(problem: str | None) -> DesiredCondition:
    """Return whether the ring is ready; `problem` says why not, and what to do about it."""
    return DesiredCondition(
        type=READY,
        holds=problem is None,
        reason=SUCCEEDED if problem is None else FAILED,
        message="ring is ready" if problem is None else problem,
    )


def watched(
    before: RingStatus, unwatched: Sequence[GroupResource] | None, *, polled_every: float
) -> DesiredCondition | None:
    """Return whether the sharder can watch all resources, None to keep the condition as it is.

    A ring that never lacked the right has no such condition.

    Args:
        before: The status that the ring has.
        unwatched: Resources without the right to watch, in order; None if not known yet.
        polled_every: Seconds between two polls of such a resource.
    """
    if unwatched is None or (condition_of(before, WATCHED) is None and not unwatched):
        return None
    if not unwatched:
        message = "allowed to watch all resources of the ring"
        return DesiredCondition(type=WATCHED, holds=True, reason=ALLOWED, message=message)
    return DesiredCondition(
        type=WATCHED,
        holds=False,
        reason=MISSING,
        message=f"not allowed to watch, polling every {polled_every:.0f}s; {advice(unwatched)}",
    )


def advice(resources: Sequence[GroupResource]) -> str:
    """Return which rules to add to which role."""
    rules = " and ".join(
        f'{{apiGroups: ["{group}"], resources: [{resource}], verbs: [{VERBS}]}}'
        for group, resource in resources
    )
    return f"add {rules} to the sharder's ClusterRole (in the chart: rings)"


def paused(before: RingStatus, movement: MovementSpec) -> DesiredCondition | None:
    """Return whether movement is paused, None to keep the condition as it is.

    A ring that was never paused has no such condition.
    """
    if movement.paused:
        message = "movement is paused; only objects whose shard is gone are reassigned"
        return DesiredCondition(type=PAUSED, holds=True, reason=STOPPED, message=message)
    if condition_of(before, PAUSED) is None:
        return None
    return DesiredCondition(type=PAUSED, holds=False, reason=ACTIVE, message="movement is active")


def covered(
    stats: ObjectStats | None, overdue: Overdue | None, *, available: int
) -> DesiredCondition | None:
    """Return whether all objects have an available owner and no drain is overdue, None if unknown.

    A leader that has counted nothing yet already knows whether shards are available and which
    drains are overdue.
    """
    if not available:
        message = "no shard is available"
        return DesiredCondition(type=COVERED, holds=False, reason=NO_SHARDS, message=message)
    if stats is not None and stats.unowned:
        message = f"{_counted(stats.unowned, 'object')} without an available owner"
        return DesiredCondition(
            type=COVERED,
            holds=False,
            reason=UNOWNED,
            message=message if overdue is None else f"{message}; {_late(overdue)}",
            counted=True,
        )
    if overdue is not None:
        return DesiredCondition(type=COVERED, holds=False, reason=OVERDUE, message=_late(overdue))
    if stats is None:
        return None
    message = "every object has an available owner"
    return DesiredCondition(type=COVERED, holds=True, reason=OWNED, message=message, counted=True)


def exhausted(stats: ObjectStats | None, *, available: int) -> DesiredCondition | None:
    """Return whether objects wait because no shard has room, None to keep the condition as it is.

    Without any shard, room is not what is missing.
    """
    if stats is None:
        return None
    if stats.has_room is None:
        return DesiredCondition(type=EXHAUSTED, holds=None)
    if not available:
        return None
    if not stats.unassigned or stats.has_room:
        message = "no object waits for room on a shard"
        return DesiredCondition(
            type=EXHAUSTED, holds=False, reason=SUFFICIENT, message=message, counted=True
        )
    many = _counted(stats.unassigned, "object")
    return DesiredCondition(
        type=EXHAUSTED,
        holds=True,
        reason=INSUFFICIENT,
        message=f"{many} cannot be assigned: all shards are at capacity",
        counted=True,
    )


def condition_of(status: RingStatus, name: str) -> Condition | None:
    """Return the condition of that type, None if there is none."""
    return next((c for c in status.conditions if c.type == name), None)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _late(overdue: Overdue) -> str:
    exceed = "exceeds" if overdue.count == 1 else "exceed"
    many = _counted(overdue.count, "drain")
    return f"{many} {exceed} spec.movement.drainTimeout, e.g. {overdue.first}"

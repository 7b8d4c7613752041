"""What the conditions of a ring say, but for since when; pure.

Some follow from counts, which change all the time.  That is marked twice: by type in
`FROM_COUNTS`, so that a number in a message is no reason to write the status; and by
`DesiredCondition.counted`, so that an object on its way is none.  A condition of such a type can
follow from more than counts for once, and is then believed at once.
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
OWNED, UNASSIGNED, NO_SHARDS = "AllOwned", "ObjectsUnassigned", "NoShards"
OVERDUE: Final = "DrainOverdue"
EXHAUSTED: Final = "CapacityExhausted"
INSUFFICIENT, SUFFICIENT = "InsufficientCapacity", "SufficientCapacity"
PAUSED: Final = "Paused"
STOPPED, ACTIVE = "MovementPaused", "MovementActive"

VERBS: Final = "get, list, watch, patch"
"""What the sharder does with the objects of a ring."""

FROM_COUNTS: Final = frozenset({COVERED, EXHAUSTED})
"""Types whose message may hold a number of objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredCondition:
    """What a condition is to say."""

    type: str
    holds: bool | None
    """None: it does not apply to the ring, which is to have no such condition."""
    reason: str = ""
    message: str = ""
    counted: bool = False
    """Whether it rests on counts alone: it may be another one in a moment."""

    @property
    def status(self) -> str:
        """The condition's status."""
        return "True" if self.holds else "False"

    def is_said(self, known: Condition | None) -> bool:
        """Return whether `known` says the same, in whatever words."""
        if known is None or self.holds is None:
            return known is None and self.holds is None
        return (known.status, known.reason) == (self.status, self.reason)


def ready(problem: str | None) -> DesiredCondition:
    """Say whether anything keeps the ring from working, and what to do about it."""
    return DesiredCondition(
        type=READY,
        holds=problem is None,
        reason=SUCCEEDED if problem is None else FAILED,
        message="the ring works" if problem is None else problem,
    )


def watched(
    before: RingStatus, unwatched: Sequence[GroupResource] | None, *, polled_every: float
) -> DesiredCondition | None:
    """Say that rights are missing, and once they are granted that they are there.

    A ring that never lacked one has no such condition; None: it stays as it is.

    Args:
        before: The status that the ring has.
        unwatched: Resources that may not be watched, in order; None as long as it is not known.
        polled_every: Seconds between two lists of such a resource.
    """
    if unwatched is None or (condition_of(before, WATCHED) is None and not unwatched):
        return None
    if not unwatched:
        message = "all resources of the ring may be watched"
        return DesiredCondition(type=WATCHED, holds=True, reason=ALLOWED, message=message)
    return DesiredCondition(
        type=WATCHED,
        holds=False,
        reason=MISSING,
        message=f"listed every {polled_every:.0f} s instead of watched: {advice(unwatched)}",
    )


def advice(resources: Sequence[GroupResource]) -> str:
    """Return which rules to add, and where."""
    rules = " and ".join(
        f'{{apiGroups: ["{group}"], resources: [{resource}], verbs: [{VERBS}]}}'
        for group, resource in resources
    )
    return f"add {rules} to the sharder's ClusterRole (in the chart: rings)"


def paused(before: RingStatus, movement: MovementSpec) -> DesiredCondition | None:
    """Say that nothing is moved, and once that is over that things are.

    A ring that was never paused has no such condition; None: it stays as it is.
    """
    if movement.paused:
        message = "spec.movement.paused: only objects without an available owner get another one"
        return DesiredCondition(type=PAUSED, holds=True, reason=STOPPED, message=message)
    if condition_of(before, PAUSED) is None:
        return None
    return DesiredCondition(
        type=PAUSED, holds=False, reason=ACTIVE, message="objects are moved as needed"
    )


def covered(
    figures: ObjectStats | None, overdue: Overdue | None, *, available: int
) -> DesiredCondition | None:
    """Say whether every object in scope is with a shard that does as asked; None: nobody knows.

    That there is no shard, or that drains are overdue, is known at once, also to a leader that
    has counted nothing yet.
    """
    if not available:
        message = "no shard is available"
        return DesiredCondition(type=COVERED, holds=False, reason=NO_SHARDS, message=message)
    if figures is not None and figures.unowned:
        message = f"{_objects(figures.unowned)} without an available owner"
        return DesiredCondition(
            type=COVERED,
            holds=False,
            reason=UNASSIGNED,
            message=message if overdue is None else f"{message}; {_late(overdue)}",
            counted=True,
        )
    if overdue is not None:
        return DesiredCondition(type=COVERED, holds=False, reason=OVERDUE, message=_late(overdue))
    if figures is None:
        return None
    message = "every object has an available owner"
    return DesiredCondition(type=COVERED, holds=True, reason=OWNED, message=message, counted=True)


def exhausted(figures: ObjectStats | None, *, available: int) -> DesiredCondition | None:
    """Say whether objects wait because no shard has room for them; None: nobody knows.

    Without any shard room is not what is missing.
    """
    if figures is None:
        return None
    if figures.has_room is None:
        return DesiredCondition(type=EXHAUSTED, holds=None)
    if not available:
        return None
    if not figures.unassigned or figures.has_room:
        message = "no object waits for room on a shard"
        return DesiredCondition(
            type=EXHAUSTED, holds=False, reason=SUFFICIENT, message=message, counted=True
        )
    many = _objects(figures.unassigned)
    return DesiredCondition(
        type=EXHAUSTED,
        holds=True,
        reason=INSUFFICIENT,
        message=f"{many} could not be assigned, all shards at capacity",
        counted=True,
    )


def condition_of(status: RingStatus, name: str) -> Condition | None:
    """Return the condition of that type, None if there is none."""
    return next((c for c in status.conditions if c.type == name), None)


def _objects(number: int) -> str:
    return f"{number} object" + ("" if number == 1 else "s")


def _late(overdue: Overdue) -> str:
    many = _objects(overdue.count)
    return f"{many} not let go of within spec.movement.drainTimeout, such as {overdue.first}"

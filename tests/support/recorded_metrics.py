"""Metrics that record what controllers report."""

from collections.abc import Mapping, Sequence

from sharder.core.names import GroupResource, RingName
from sharder.core.status.stats import ShardLoad
from sharder.core.status.transition_messages import Transition
from sharder.ports import Backlog


class RecordedMetrics:
    """The metrics of all controllers."""

    def __init__(self) -> None:
        self.moves = 0
        self.drains = 0
        self.withholdings: list[tuple[RingName, str]] = []
        self.overdue: dict[tuple[RingName, GroupResource], int] = {}
        self.passes: list[RingName] = []
        self.failures: list[tuple[RingName, GroupResource]] = []
        self.shown: dict[tuple[RingName, GroupResource], tuple[Backlog, Backlog]] = {}
        self.loads: dict[RingName, tuple[int, tuple[ShardLoad, ...]]] = {}
        self.rebalances = 0
        self.planned: dict[RingName, int] = {}
        self.crashes: list[str] = []
        self.handovers: list[tuple[RingName, str, float]] = []
        self.rescues: list[tuple[RingName, float]] = []
        self.transitions: list[tuple[RingName, Transition]] = []
        self.conditions: dict[RingName, dict[str, str]] = {}

    def handed_over(self, ring: RingName, reason: str, seconds: float) -> None:
        self.handovers.append((ring, reason, seconds))

    def rescued(self, ring: RingName, seconds: float) -> None:
        self.rescues.append((ring, seconds))

    def show_conditions(self, ring: RingName, conditions: Mapping[str, str]) -> None:
        self.conditions[ring] = dict(conditions)

    def hide_conditions(self, ring: RingName) -> None:
        self.conditions.pop(ring, None)

    def happened(self, ring: RingName, transition: Transition) -> None:
        self.transitions.append((ring, transition))

    def moved(self, ring: RingName, resource: GroupResource) -> None:
        self.moves += 1

    def drained(self, ring: RingName, resource: GroupResource) -> None:
        self.drains += 1

    def withheld(self, ring: RingName, limit: str) -> None:
        self.withholdings.append((ring, limit))

    def failed(self, ring: RingName, resource: GroupResource) -> None:
        self.failures.append((ring, resource))

    def resynced(self, ring: RingName, seconds: float) -> None:
        self.passes.append(ring)

    def show_backlogs(
        self, ring: RingName, resource: GroupResource, *, unassigned: Backlog, draining: Backlog
    ) -> None:
        self.shown[ring, resource] = (unassigned, draining)

    def hide_backlogs(self, ring: RingName, resource: GroupResource) -> None:
        self.shown.pop((ring, resource), None)
        self.overdue.pop((ring, resource), None)

    def show_overdue(self, ring: RingName, resource: GroupResource, *, drains: int) -> None:
        self.overdue[ring, resource] = drains

    def show_load(self, ring: RingName, *, objects: int, shards: Sequence[ShardLoad]) -> None:
        self.loads[ring] = (objects, tuple(shards))

    def hide_load(self, ring: RingName) -> None:
        self.loads.pop(ring, None)

    def rebalanced(self, ring: RingName) -> None:
        self.rebalances += 1

    def show_planned_moves(self, ring: RingName, moves: int) -> None:
        self.planned[ring] = moves

    def crashed(self, task: str) -> None:
        self.crashes.append(task)

    def hide_planned_moves(self, ring: RingName) -> None:
        self.planned.pop(ring, None)

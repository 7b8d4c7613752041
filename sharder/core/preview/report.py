"""What `sharder plan -o json` prints (docs/commands.md)."""

import msgspec

from sharder.core.api.ring import RebalanceStrategy
from sharder.core.movement.step import Action
from sharder.core.names import RingName, ShardName
from sharder.core.status.phases import ShardPhase


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """Where an object is, and where the plan moves it."""

    object: str
    """`group/Kind/namespace/name`; group and namespace can be empty."""
    origin: ShardName | None = msgspec.field(name="from")
    """The owner that its label names."""
    to: ShardName | None
    """Its shard in the end; None if no shard has room."""
    action: Action
    controlled: bool
    """Whether it follows its parent."""


class ShardLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A shard and its objects after the plan."""

    name: ShardName
    state: ShardPhase
    objects: int
    """Main objects."""
    children: int
    load: dict[str, int] | None = None
    """The load that counts towards its ceiling: `objects` of main resources; None: no load."""
    capacity: dict[str, int] | None = None
    """Its ceiling, in `objects`; None: no ceiling."""


class Summary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The plan in numbers, of main objects and of children.

    Imbalance is the highest number of main objects on an available shard divided by the mean; 1.0
    is perfect balance, and None means that no available shard has objects.
    """

    objects: int
    """The number of objects in scope that a shard should own."""
    children: int
    moves: int
    """The number of objects that get another shard, or their first one."""
    moved_children: int
    exact: bool
    """Whether the moves are exact; new shards with other names get other objects."""
    imbalance_before: float | None
    """The most main objects on an available shard over the mean; None if they have none."""
    imbalance_after: float | None


class ShardMeasure(msgspec.Struct, frozen=True, kw_only=True):
    """The measure of an available shard, after all other steps of the plan."""

    name: ShardName
    before: float
    """Before the moves for balance."""
    after: float
    """After all moves for balance."""


class BalanceMove(msgspec.Struct, frozen=True, kw_only=True):
    """An object that moves for balance, with the measure of its shard before and after."""

    object: str
    """`group/Kind/namespace/name`."""
    source: ShardName = msgspec.field(name="from")
    target: ShardName = msgspec.field(name="to")
    before: float
    after: float
    refused: str | None
    """Why the move cannot be made after the moves before it; None: it is made."""


class BalanceReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One rebalancing run of a ring."""

    strategy: RebalanceStrategy
    dry_run: bool
    """Whether moves are only reported; then none of them is part of the plan."""
    measure: str | None
    """The name of the measure; None if the shards were not compared."""
    threshold: float | None
    """Objects leave shards whose measure is above this; None if the strategy has no threshold."""
    shards: tuple[ShardMeasure, ...]
    """The available shards, by name; empty if they were not compared."""
    moves: tuple[BalanceMove, ...]
    """The moves, in the order of the run."""
    why: str
    """The result of the run, in one sentence."""


class PlanReport(msgspec.Struct, frozen=True, kw_only=True):
    """A plan for all objects of a ring, in the order of their names."""

    ring: RingName
    strategy: str
    paused: bool = False
    """Whether `spec.movement.paused` keeps objects where they are."""
    problem: str | None = None
    """Why the ring is not ready, by its condition Ready; None if it is."""
    shards: tuple[ShardLoad, ...]
    assignments: tuple[Assignment, ...]
    unassigned: tuple[str, ...]
    """The objects without an owner label after the plan is carried out."""
    unowned: tuple[str, ...]
    """The objects without an available owner then: unassigned, or of a shard that is gone."""
    reasons: dict[str, str]
    """For each unowned object, why it has no available owner."""
    refusals: tuple[str, ...]
    """The refusals of the ring as it is planned."""
    rebalance: BalanceReport | None
    """The moves for balance, and why there are no more; None if the ring is not rebalanced."""
    summary: Summary

"""What `sharder plan -o json` prints (docs/commands.md)."""

import msgspec

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
    """The load that counts towards its ceiling."""
    capacity: dict[str, int] | None = None
    """Its ceiling, in `objects`; None: no ceiling."""


class Summary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The plan in numbers, of main objects and of children.

    Imbalance is the highest number of main objects on an available shard divided by the mean; 1.0
    is perfect balance, and None means that no available shard has objects.
    """

    objects: int
    """Main objects in scope."""
    children: int
    moves: int
    """Objects that get another shard, or their first one."""
    moved_children: int
    exact: bool
    """Whether the moves are exact: new shards with other names get other objects."""
    imbalance_before: float | None
    """The most main objects on an available shard over the mean; None if they have none."""
    imbalance_after: float | None


class PlanReport(msgspec.Struct, frozen=True, kw_only=True):
    """A plan for all objects of a ring, in the order of their names."""

    ring: RingName
    strategy: str
    paused: bool = False
    """Whether `spec.movement.paused` keeps objects where they are."""
    problem: str | None = None
    """Why the ring is not ready."""
    shards: tuple[ShardLoad, ...]
    assignments: tuple[Assignment, ...]
    unassigned: tuple[str, ...]
    """The objects without an owner label after the plan is carried out."""
    unowned: tuple[str, ...]
    """The objects without an available owner then."""
    reasons: dict[str, str]
    """For each unowned object, why it has no available owner."""
    refusals: tuple[str, ...]
    """The refusals of the ring as it is planned."""
    summary: Summary

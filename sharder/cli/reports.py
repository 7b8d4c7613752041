"""The documents that the commands print; their JSON is a stable interface (docs/commands.md)."""

from enum import StrEnum

import msgspec

from sharder.core.api.ring import StrategyName
from sharder.core.names import RingName, ShardName
from sharder.core.plan.observe import Bound
from sharder.core.plan.state import Action
from sharder.core.status.phases import ShardPhase


class RingRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One ring; the counts are None if the ring's objects cannot be read, see `problem`."""

    name: RingName
    strategy: StrategyName
    resources: tuple[str, ...]
    shards: int
    available_shards: int
    objects: int | None
    """Main objects."""
    children: int | None
    """Controlled objects."""
    unassigned: int | None
    """Objects without an owner label."""
    unowned: int | None
    """Objects without an available owner: unassigned, or of a shard that is gone."""
    unowned_children: int | None
    draining: int | None
    """Objects that their shard has not released yet."""
    ready: str
    """Status of the condition Ready: `True`, `False` or `Unknown`."""
    paused: bool = False
    """`spec.movement.paused`."""
    problem: str | None
    """Why the ring does not work."""


class RingsReport(msgspec.Struct, frozen=True, kw_only=True):
    """All rings, by name."""

    rings: tuple[RingRow, ...]


class ShardRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One Lease of a ring, hence one shard."""

    name: ShardName
    namespace: str
    state: ShardPhase
    available: bool
    """Whether it owns objects."""
    cordoned: bool
    """The shard keeps its objects and gets no new objects."""
    evacuating: bool
    """The shard's objects are drained, and it gets no new objects."""
    region: str
    zone: str
    pool: str
    """Region, zone and pool are empty if the Lease names none."""
    weight: float
    capacity: dict[str, str]
    """The capacity by resource; for objects the ring's `perShardCapacity` if that is lower."""
    objects: int
    """Main objects."""
    children: int
    draining: int
    renew_time: str | None
    """Its last renewal; None if it does not hold its Lease."""
    renewed_seconds_ago: float | None
    problem: str | None
    """Why the Lease is ignored as a shard, or None."""
    mistakes: tuple[str, ...]
    """Annotations of the Lease that are ignored, and why."""


class ShardsReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The shards of a ring, by name, and counts of all its objects."""

    ring: RingName
    paused: bool = False
    """`spec.movement.paused`."""
    problem: str | None = None
    """Why the ring does not work, or None."""
    shards: tuple[ShardRow, ...]
    objects: int
    children: int
    unassigned: int
    unowned: int
    unowned_children: int
    draining: int


class ObjectState(StrEnum):
    """What an object waits for."""

    DRAINING = "draining"
    """Its shard has to release it."""
    UNASSIGNED = "unassigned"
    """It has no owner label."""
    UNOWNED = "unowned"
    """Its shard is gone."""
    APART = "apart"
    """It is controlled, and not on the shard of its parent."""
    ASSIGNED = "assigned"
    """Nothing: its shard works on it."""


class ObjectRow(msgspec.Struct, frozen=True, kw_only=True):
    """One object."""

    object: str
    """`group/Kind/namespace/name`."""
    shard: ShardName | None
    """Its owner."""
    state: ObjectState
    since: str | None
    """Since when, as far as one read shows it; see `bound`."""
    bound: Bound | None
    """Whether it is in the state for at least, or at most, the time since then."""


class ObjectsReport(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of a ring, those that are longest in their state first."""

    ring: RingName
    time: str
    """When they were read."""
    objects: tuple[ObjectRow, ...]


class ShardView(msgspec.Struct, frozen=True, kw_only=True):
    """One shard as a candidate for an object."""

    name: ShardName
    state: ShardPhase | None
    """None if it has no Lease."""
    rejected: str | None
    """Why the shard cannot have the object, or None."""
    remark: str | None
    """The strategy's remark on the shard; None if the shard is rejected."""


class PlacementView(msgspec.Struct, frozen=True, kw_only=True):
    """How an object of a main resource would be placed, with the current counts."""

    pin: str | None
    region: str | None
    zone: str | None
    pool: str | None
    """The requirements of the object's labels; None: any."""
    group: tuple[str, ...]
    """What the members of the object's group share, such as `label app=web`, `selector 0` or
    `owner` with a uid."""
    chosen: ShardName | None
    """The best shard now; with a strategy that sticks, no reason to move the object."""
    reason: str | None
    """Why no shard is chosen, or None."""
    shards: tuple[ShardView, ...]
    """All shards of the ring, by name."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why one object is where it is."""

    ring: RingName
    strategy: StrategyName
    resource: str
    object: str
    """`group/Kind/namespace/name`."""
    key: str | None
    """The key by which the object is placed: its own, or the key of its parent."""
    controller: str | None
    """The parent of the object, if its resource is controlled."""
    owner: ShardName | None
    owner_state: ShardPhase | None
    """None if the owner has no Lease."""
    draining: bool
    since: str | None
    """Since when it drains, has its owner, or at most waits for one; see `bound`."""
    bound: Bound | None
    """Whether that is at least, or at most, the time since then."""
    wanted: ShardName | None
    action: Action
    to: ShardName | None
    why: str
    advice: str | None
    """What to do, None if there is nothing to do."""
    movement: str | None
    """A sentence if movement is paused, or None."""
    rollout: str | None
    """A sentence if shards of several revisions are available, or None."""
    evacuation: str | None
    """A sentence if the owner is being evacuated, or None."""
    placement: PlacementView | None
    """None for a controlled resource, or out of scope."""
    mistakes: tuple[str, ...]
    """Labels and annotations of the object that are ignored, and why."""

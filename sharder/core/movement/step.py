"""Decide the next step for one object.

The resync, the hand-over after a drain and `sharder plan` use this module.  The step of an object
depends only on its position and the standing of the shards, so it can be decided again at any time
(docs/protocol.md, "Moving objects").
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from sharder.core.api.meta import PartialObject
from sharder.core.leases.membership import Members, Standing
from sharder.core.names import ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where an object is and where it belongs; None means no shard."""

    current: ShardName | None
    desired: ShardName | None
    draining: bool = False


@dataclass(frozen=True, slots=True)
class Keep:
    """Do nothing until something changes; `why` is for people."""

    why: str
    fault: bool = False
    """Whether the ring's strategy is at fault: it is not installed, or its answer was rejected."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Drain the object from `shard`, which might be working on it."""

    shard: ShardName
    to: ShardName | None = field(default=None, compare=False)
    """The shard to which the object goes next, if that is decided."""


@dataclass(frozen=True, slots=True)
class Assign:
    """Assign the object to `shard` at once: no shard works on it, or on its controller."""

    shard: ShardName


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Withdraw the drain: the object belongs where it is."""


@dataclass(frozen=True, slots=True)
class Send:
    """Direct the object, without owner or of a shard that is gone, to `shard` with its children.

    From then on it has no owner and its `next` says where it goes: a shard that returns does not
    own it, and every replica moves its children to the same shard before it is assigned.
    """

    shard: ShardName


@dataclass(frozen=True, slots=True)
class Disown:
    """Remove the owner label of an object of a controlled resource: it has no controller."""


Step: TypeAlias = Keep | Drain | Assign | Withdraw | Send | Disown


def position_of(snapshot: RingSnapshot, obj: PartialObject, desired: ShardName | None) -> Position:
    """Return the object's position; `desired` is the shard where it belongs."""
    return Position(
        current=snapshot.owner_of(obj), desired=desired, draining=snapshot.is_draining(obj)
    )


def next_step(position: Position, members: Members, role: Role = Role.MAIN) -> Step:
    """Return the one step that brings an object closer to where it belongs.

    An object is never taken from a shard that might be working on it: it is drained first.  For a
    controlled object, `desired` is the shard of its controller.  It moves without a drain, because
    its shard has already released the controller.
    """
    if position.desired is None:
        return Keep("no shard is available")
    if position.current is None:
        return Assign(position.desired)
    if position.current == position.desired:
        return Withdraw() if position.draining else Keep("in place")
    standing = members.standing_of(position.current)
    if standing is Standing.GONE:
        return Assign(position.desired)
    if role is Role.CONTROLLED:
        return Assign(position.desired)
    if standing is Standing.MISSING:
        return Keep("its shard is missing and might still be working")
    if position.draining:
        return Keep("waiting for its shard to acknowledge the drain")
    return Drain(position.current, position.desired)

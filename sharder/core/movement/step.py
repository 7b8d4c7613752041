"""Decide the next step for one object.

Pure: the resync, the hand-over after a drain, `sharder plan` and the tests all ask here.  One
object's step depends only on its position and the standing of the shards, so that a step may be
decided again at any moment (docs/protocol.md, "Moving objects").
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from sharder.core.api.meta import PartialObject
from sharder.core.leases.membership import Members, Standing
from sharder.core.names import ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where an object is and where its ring wants it; None stands for "no shard"."""

    current: ShardName | None
    desired: ShardName | None
    draining: bool = False


@dataclass(frozen=True, slots=True)
class Keep:
    """Do nothing until something changes; `why` is for people."""

    why: str
    fault: bool = False
    """The ring's strategy is to blame: it is not installed, or its answer was rejected."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Ask `shard`, which may be working on the object, to let go of it."""

    shard: ShardName
    to: ShardName | None = field(default=None, compare=False)
    """Where the object is to go then, as far as that is settled."""


@dataclass(frozen=True, slots=True)
class Assign:
    """Give the object to `shard` at once: nobody works on it."""

    shard: ShardName


@dataclass(frozen=True, slots=True)
class Relabel:
    """Move a controlled object to `shard`, after the owner that has left where it is now."""

    shard: ShardName


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Take the request to let go back: the object belongs where it is."""


@dataclass(frozen=True, slots=True)
class Release:
    """Take the owner off an object of a controlled resource: nothing controls it."""


Step: TypeAlias = Keep | Drain | Assign | Relabel | Withdraw | Release


def position_of(snapshot: RingSnapshot, obj: PartialObject, desired: ShardName | None) -> Position:
    """Return the object's position, given where it belongs."""
    return Position(
        current=snapshot.owner_of(obj), desired=desired, draining=snapshot.is_draining(obj)
    )


def next_step(position: Position, members: Members, role: Role = Role.MAIN) -> Step:
    """Return the one step that brings an object nearer to where it belongs.

    Nothing is ever taken from a shard that may be working on it: such a shard is asked first.
    For controlled objects `desired` is the shard of the owner: they may leave without being
    asked for, because whoever works on them left with the owner.
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
        return Relabel(position.desired)
    if standing is Standing.MISSING:
        return Keep("its shard is missing and may still be working")
    if position.draining:
        return Keep("waiting for its shard to let go")
    return Drain(position.current, position.desired)

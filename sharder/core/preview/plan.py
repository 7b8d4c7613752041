"""Plan all objects of a ring at one moment: where the leader's own steps bring them.

Main objects come first, then the moves for balance, then controlled objects, which follow them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sharder.core.api.meta import PartialObject
from sharder.core.keys import main_key
from sharder.core.movement.planner import Owners, plan_controlled
from sharder.core.movement.step import (
    Action,
    Assign,
    Drain,
    Keep,
    Relabel,
    Release,
    Step,
    Withdraw,
)
from sharder.core.names import ShardName
from sharder.core.preview.balance import Balanced, balanced, is_rebalanced
from sharder.core.preview.observe import is_unowned
from sharder.core.preview.simulation import Move, Simulation, fill
from sharder.core.ring.snapshot import RingSnapshot, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One object and where it goes."""

    obj: PartialObject
    role: Role
    key: str | None
    """The key by which it is placed; None for a controlled resource without a controller."""
    current: ShardName | None
    to: ShardName | None
    """Its shard in the end."""
    step: Step
    """The first step that changes it, else why it stays."""
    why: str
    """The reason for that step, for people."""
    reason: str
    """Why no available shard has it in the end, if so."""

    @property
    def action(self) -> Action:
        """What the plan does with the object."""
        if self.to == self.current or isinstance(self.step, Release):
            return Action.NONE if self.to is None else Action.KEEP
        if isinstance(self.step, Assign):
            return Action.ASSIGN
        return Action.RELABEL if self.role is Role.CONTROLLED else Action.DRAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All objects of a ring."""

    objects: list[Planned]
    then: RingSnapshot
    """The ring in the end; its tally counts the main objects then."""
    balance: Balanced | None
    """The moves for balance; None if the ring is not rebalanced."""


def plan_ring(snapshot: RingSnapshot, objects: Iterable[tuple[Role, PartialObject]]) -> Plan:
    """Return the plan for the objects, which can be in any order.

    With a strategy that sticks, these must be all main objects in scope, and the snapshot's tally
    is filled with the objects as they are.  An object out of scope stays where it is.
    """
    given = list(objects)
    main = [obj for role, obj in given if role is not Role.CONTROLLED and snapshot.selects(obj)]
    if snapshot.tally is not None:
        fill(snapshot.tally, snapshot, main)
    ring = Simulation(snapshot, main)
    ring.settle()
    children = [obj for role, obj in given if role is Role.CONTROLLED]
    balance = balanced(ring, children) if is_rebalanced(snapshot) else None
    owners, planned = Owners(), list[Planned]()
    for role, obj in sorted(given, key=lambda pair: pair[0] is Role.CONTROLLED):
        if role is Role.CONTROLLED and snapshot.selects(obj, role):
            planned.append(_child(ring, obj, owners))
        elif (move := ring.moves.get(main_key(obj))) is not None:
            owners.note(ring.at, move.now, move.last)
            planned.append(_main(ring.at, move, role))
        else:
            if role is not Role.CONTROLLED:
                owners.leave(ring.at, obj)
            planned.append(_outside(snapshot, obj, role))
    return Plan(objects=planned, then=ring.at, balance=balance)


def _main(then: RingSnapshot, move: Move, role: Role) -> Planned:
    to = then.owner_of(move.now)
    return Planned(
        obj=move.before,
        role=role,
        key=then.key_of(move.before, role),
        current=then.owner_of(move.before),
        to=to,
        step=move.step,
        why=_why(move, then.owner_of(move.before), to),
        reason=move.last.why if isinstance(move.last, Keep) else "",
    )


def _child(ring: Simulation, child: PartialObject, owners: Owners) -> Planned:
    then = ring.at
    step, current = plan_controlled(then, child, owners), then.owner_of(child)
    match step:
        case Assign(shard) | Relabel(shard):
            to: ShardName | None = shard
        case Release():
            to = None
        case _:
            to = current
    parent = ring.moves.get(then.controller_key(child) or "")
    is_joined = to is not None and parent is not None and then.owner_of(parent.before) != to
    why = _why_child(step, current, to, is_joined=is_joined)
    no_owner = is_unowned(then, owners.shard_for(then, child))
    return Planned(
        obj=child,
        role=Role.CONTROLLED,
        key=then.key_of(child, Role.CONTROLLED),
        current=current,
        to=to,
        step=step,
        why=why,
        reason="no shard works on its controller" if no_owner else why,
    )


def _outside(snapshot: RingSnapshot, obj: PartialObject, role: Role) -> Planned:
    owner = snapshot.owner_of(obj)
    why = f"the ring does not select its namespace {obj.metadata.namespace}"
    if not snapshot.matches(obj, role):
        why = "the ring does not select its labels"
    why += ", so it gets no other shard"
    return Planned(
        obj=obj,
        role=role,
        key=snapshot.key_of(obj, role),
        current=owner,
        to=owner,
        step=Keep(why),
        why=why,
        reason=why,
    )


def _why(move: Move, owner: ShardName | None, to: ShardName | None) -> str:
    match move.step:
        case Keep(why):
            return why
        case Withdraw():
            return "it belongs where it is: its drain is withdrawn"
        case Drain() if move.displaced:
            last = move.last.why if isinstance(move.last, Keep) else ""
            goal = f"it goes to {to}" if to else last
            return f"{owner} exceeds its ceiling and has to release the object; {goal}"
        case Drain():
            goal = f"{move.balance}, so it goes to {to}" if move.balance else f"it belongs on {to}"
            return f"{goal}; {owner} might be working on it and has to release it first"
        case _:
            return f"{_lost(owner)}, and it belongs on {to}"


def _why_child(
    step: Step, owner: ShardName | None, to: ShardName | None, *, is_joined: bool
) -> str:
    """Return the reason for a step; `is_joined` is whether the controller goes to that shard."""
    match step:
        case Keep("in place") if is_joined:
            return f"its controller goes to {owner} too"
        case Keep(why):
            return why
        case Release():
            return "it has no controller: its owner label is removed"
        case Relabel(shard):
            return f"it follows its controller to {shard}"
        case _:
            return f"{_lost(owner)}, and it belongs on {to}"


def _lost(owner: ShardName | None) -> str:
    return "it has no shard" if owner is None else f"{owner} is gone"

"""Plan all objects of a ring at one moment: where the leader's own steps bring them.

Main objects come first, then controlled objects, which follow them.  Moves for balance are not
planned: `spec.rebalance.dryRun` makes the leader report them.  `sharder plan -o json` prints the
report (docs/commands.md).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from sharder.core.api.meta import PartialObject
from sharder.core.keys import main_key
from sharder.core.leases.shard import OBJECTS
from sharder.core.movement.planner import Parents, plan_controlled
from sharder.core.movement.step import Assign, Disown, Drain, Keep, Withdraw
from sharder.core.names import RingName, ShardName
from sharder.core.plan.observe import Number, is_unowned, not_ready
from sharder.core.plan.state import Action, Planned, State, fill, planned
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.core.status.phases import ShardPhase
from sharder.core.validation import refusals


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All objects of a ring."""

    objects: list[Planned]
    then: RingSnapshot
    """The ring in the end; its tally counts the main objects then."""


def plan_ring(snapshot: RingSnapshot, objects: Iterable[tuple[Role, PartialObject]]) -> Plan:
    """Return the plan for the objects, which can be in any order.

    With a strategy that sticks, these must be all main objects in scope, and the snapshot's tally
    is filled with the objects as they are.  An object out of scope stays where it is.
    """
    given = sorted(objects, key=lambda pair: pair[0] is Role.CONTROLLED)
    main = [pair for pair in given if pair[0] is not Role.CONTROLLED and snapshot.selects(pair[1])]
    if snapshot.tally is not None:
        fill(snapshot.tally, snapshot, (obj for _, obj in main))
    ring = State(snapshot, main)
    ring.settle()
    parents, found = Parents(), list[Planned]()
    for role, obj in given:
        if role is Role.CONTROLLED and snapshot.selects(obj, role):
            found.append(_child(ring, obj, parents))
        elif (each := ring.objects.get(main_key(obj))) is not None:
            parents.note(ring.at, each.now)
            each.reason = each.last.why if isinstance(each.last, Keep) else ""
            each.why = each.why or _why(each)
            found.append(each)
        else:
            if role is not Role.CONTROLLED:
                parents.note(ring.at, obj)
            found.append(_outside(snapshot, obj, role))
    return Plan(objects=found, then=ring.at)


def report(
    snapshot: RingSnapshot,
    plan: Plan,
    states: Mapping[ShardName, ShardPhase],
    *,
    is_exact: bool = True,
) -> PlanReport:
    """Return the report of a plan, in the order of the objects' names.

    `states` contains the shards to list, with their states; `is_exact` is that of the `WhatIf`.
    """
    ordered = sorted(plan.objects, key=lambda each: main_key(each.obj))
    counted = [each for each in ordered if each.key is not None]
    every, moves = Number(), Number()
    before = defaultdict[ShardName | None, Number](Number)
    after = defaultdict[ShardName | None, Number](Number)
    for each in counted:
        every.add(each.role)
        moves.add(each.role, each.current != each.to)
        before[each.current].add(each.role)
        after[each.to].add(each.role)
    reasons = {main_key(it.obj): it.reason for it in counted if is_unowned(snapshot, it.to)}
    available = snapshot.members.available
    return PlanReport(
        ring=snapshot.name,
        strategy=snapshot.ring.spec.placement.strategy,
        paused=snapshot.ring.spec.movement.paused,
        problem=not_ready(snapshot.ring),
        shards=tuple(_load(plan.then, name, states[name], after[name]) for name in sorted(states)),
        assignments=tuple(
            Assignment(
                object=main_key(each.obj),
                origin=each.current,
                to=each.to,
                action=each.action,
                controlled=each.role is Role.CONTROLLED,
            )
            for each in ordered
        ),
        unassigned=tuple(main_key(each.obj) for each in counted if each.to is None),
        unowned=tuple(reasons),
        reasons=reasons,
        refusals=tuple(map(str, refusals(snapshot.ring, snapshot.placer.layout.custom))),
        summary=Summary(
            objects=every.objects,
            children=every.children,
            moves=moves.objects,
            moved_children=moves.children,
            exact=is_exact,
            imbalance_before=_imbalance([before[shard].objects for shard in available]),
            imbalance_after=_imbalance([after[shard].objects for shard in available]),
        ),
    )


def _load(then: RingSnapshot, name: ShardName, state: ShardPhase, has: Number) -> ShardLoad:
    load, capacity = None, None
    if then.tally is not None:
        load, shard = {OBJECTS: has.objects}, then.placer.layout.by_name.get(name)
        if shard is not None and name in then.members.available:
            ceiling = then.placer.ceilings(then.tally).of(shard)
            capacity = None if ceiling is None else {OBJECTS: ceiling}
    return ShardLoad(
        name=name,
        state=state,
        objects=has.objects,
        children=has.children,
        load=load,
        capacity=capacity,
    )


def _imbalance(sizes: list[int]) -> float | None:
    """Return the highest size divided by the mean, None if there are no objects."""
    total = sum(sizes)
    return max(sizes) * len(sizes) / total if total else None


def _child(ring: State, child: PartialObject, parents: Parents) -> Planned:
    """Return a controlled object after the step that follows its controller."""
    then, each = ring.at, planned(ring.at, child, Role.CONTROLLED)
    each.step = plan_controlled(then, child, parents)
    if isinstance(each.step, Assign):
        each.to = each.step.shard
    elif isinstance(each.step, Disown):
        each.to = None
    each.why = _why(each)
    parent = ring.objects.get(then.controller_key(child) or "")
    is_joined = each.to is not None and parent is not None and parent.current != each.to
    if is_joined and each.step == Keep("in place"):
        each.why = f"its controller goes to {each.to} too"
    no_owner = is_unowned(then, parents.shard_for(then, child))
    each.reason = "no shard works on its controller" if no_owner else each.why
    return each


def _outside(snapshot: RingSnapshot, obj: PartialObject, role: Role) -> Planned:
    each, why = planned(snapshot, obj, role), "the ring does not select its labels"
    if snapshot.matches(obj, role):
        why = f"the ring does not select its namespace {obj.metadata.namespace}"
    each.why = each.reason = f"{why}, so it gets no other shard"
    return each


def _why(each: Planned) -> str:
    """Return the reason for the first step of an object."""
    owner, to = each.current, each.to
    match each.step:
        case Keep(why):
            return why
        case Withdraw():
            return "it belongs where it is: its drain is withdrawn"
        case Drain() if each.is_displaced:
            goal = f"it goes to {to}" if to else each.reason
            return f"{owner} exceeds its ceiling and has to release the object; {goal}"
        case Drain(shard):
            return (
                f"it belongs on {to}; {shard} might be working on it and has to release it first"
            )
        case Disown():
            return "it has no controller: its owner label is removed"
        case Assign(shard) if each.role is Role.CONTROLLED and owner is not None:
            return f"it follows its controller to {shard}"
        case _:
            lost = "it has no shard" if owner is None else f"{owner} is gone"
            return f"{lost}, and it belongs on {to}"

"""The report of a plan: the move of each object, and counts per shard.

The structs are what `sharder plan -o json` prints (docs/commands.md).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from sharder.core.keys import main_key
from sharder.core.leases.shard import OBJECTS
from sharder.core.movement.step import Action
from sharder.core.names import RingName, ShardName
from sharder.core.placement.counting.tally import Tally
from sharder.core.preview.balance import BalanceReport
from sharder.core.preview.observe import Number, imbalance, is_unowned, not_ready
from sharder.core.preview.plan import Plan, Planned
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


def report(
    snapshot: RingSnapshot,
    plan: Plan,
    states: Mapping[ShardName, ShardPhase],
    *,
    is_exact: bool = True,
) -> PlanReport:
    """Return the report of a plan.

    `states` contains the shards to list, with their states; `is_exact` is that of the `WhatIf`.
    """
    ordered = sorted(plan.objects, key=lambda planned: main_key(planned.obj))
    counted = [planned for planned in ordered if planned.key is not None]
    unowned = {
        main_key(planned.obj): planned.reason
        for planned in counted
        if is_unowned(snapshot, planned.to)
    }
    return PlanReport(
        ring=snapshot.name,
        strategy=snapshot.ring.spec.placement.strategy,
        paused=snapshot.ring.spec.movement.paused,
        problem=not_ready(snapshot.ring),
        shards=_shards(plan.then, counted, states),
        assignments=tuple(map(_assignment, ordered)),
        unassigned=tuple(main_key(planned.obj) for planned in counted if planned.to is None),
        unowned=tuple(unowned),
        reasons=unowned,
        refusals=tuple(map(str, refusals(snapshot.ring, snapshot.placer.layout.custom))),
        rebalance=None if plan.balance is None else plan.balance.report,
        summary=_summary(snapshot, counted, is_exact=is_exact),
    )


def _assignment(planned: Planned) -> Assignment:
    return Assignment(
        object=main_key(planned.obj),
        origin=planned.current,
        to=planned.to,
        action=planned.action,
        controlled=planned.role is Role.CONTROLLED,
    )


def _shards(
    then: RingSnapshot, plan: Iterable[Planned], states: Mapping[ShardName, ShardPhase]
) -> tuple[ShardLoad, ...]:
    after = defaultdict[ShardName | None, Number](Number)
    for planned in plan:
        after[planned.to].add(planned.role)
    return tuple(
        ShardLoad(
            name=name,
            state=states[name],
            objects=after[name].objects,
            children=after[name].children,
            load=None if then.tally is None else {OBJECTS: after[name].objects},
            capacity=None if then.tally is None else _capacity(then, then.tally, name),
        )
        for name in sorted(states)
    )


def _summary(snapshot: RingSnapshot, plan: Iterable[Planned], *, is_exact: bool) -> Summary:
    objects, moves = Number(), Number()
    before, after = Counter[ShardName](), Counter[ShardName]()
    for planned in plan:
        objects.add(planned.role)
        moves.add(planned.role, planned.current != planned.to)
        if planned.role is not Role.CONTROLLED:
            before.update(filter(None, (planned.current,)))
            after.update(filter(None, (planned.to,)))
    available = snapshot.members.available
    return Summary(
        objects=objects.objects,
        children=objects.children,
        moves=moves.objects,
        moved_children=moves.children,
        exact=is_exact,
        imbalance_before=imbalance(before, available),
        imbalance_after=imbalance(after, available),
    )


def _capacity(snapshot: RingSnapshot, tally: Tally, name: ShardName) -> dict[str, int] | None:
    placer = snapshot.placer
    shard = next((s for s in placer.layout.available if s.name == name), None)
    ceiling = None if shard is None else placer.ceilings(tally).of(shard)
    return None if ceiling is None else {OBJECTS: ceiling}

"""The report of a plan: the move of each object, and counts per shard.

The structs are what `sharder plan -o json` prints (docs/cli.md).
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from sharder.core.keys import main_key
from sharder.core.leases.shard import OBJECTS
from sharder.core.leases.state import ShardState
from sharder.core.movement.step import Action
from sharder.core.names import RingName, ShardName
from sharder.core.placement.counting.tally import Tally
from sharder.core.preview.balance import BalanceReport, balanced, is_rebalanced
from sharder.core.preview.observe import imbalance, is_unowned, not_ready
from sharder.core.preview.plan import Planned, followed, tally_after, why
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.validation import refusals


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """Where an object is, and where the plan moves it."""

    object: str
    """`group/Kind/namespace/name`; group and namespace can be empty."""
    origin: ShardName | None = msgspec.field(name="from")
    to: ShardName | None
    action: Action


class ShardLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A shard and its objects after the plan."""

    name: ShardName
    state: ShardState
    objects: int
    load: dict[str, int] | None = None
    """The load that counts towards its ceiling: `objects` of main resources; None: no load."""
    capacity: dict[str, int] | None = None
    """Its ceiling, in `objects`; None: no ceiling."""


class Summary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The plan in numbers.

    Imbalance is the highest number of objects on an available shard divided by the mean; 1.0 is
    perfect balance, and None means that no available shard has objects.
    """

    objects: int
    """The number of objects in scope that a shard should own."""
    moves: int
    """The number of objects that get another shard, or their first one."""
    imbalance_before: float | None
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
    snapshot: RingSnapshot, plan: Iterable[Planned], states: Mapping[ShardName, ShardState]
) -> PlanReport:
    """Return the report of a plan, and add the moves for balance.

    `states` contains the shards to list, with their states.
    """
    plan = list(plan)
    for_balance = balanced(snapshot, plan) if is_rebalanced(snapshot) else None
    plan = followed(snapshot, plan if for_balance is None else for_balance.plan)
    ordered = sorted(plan, key=lambda planned: main_key(planned.obj))
    counted = [planned for planned in ordered if planned.key is not None]
    before = Counter(planned.current for planned in counted if planned.current is not None)
    after = Counter(planned.to for planned in counted if planned.to is not None)
    available = snapshot.members.available
    tally = tally_after(snapshot, ordered)
    unowned = {
        main_key(planned.obj): planned.choice.reason or why(planned)
        for planned in counted
        if is_unowned(snapshot, planned.to)
    }
    return PlanReport(
        ring=snapshot.name,
        strategy=snapshot.ring.spec.placement.strategy,
        paused=snapshot.ring.spec.movement.paused,
        problem=not_ready(snapshot.ring),
        shards=tuple(
            ShardLoad(
                name=name,
                state=states[name],
                objects=after[name],
                load=None if tally is None else {OBJECTS: tally.on(name)},
                capacity=None if tally is None else _capacity(snapshot, tally, name),
            )
            for name in sorted(states)
        ),
        assignments=tuple(
            Assignment(
                object=main_key(planned.obj),
                origin=planned.current,
                to=planned.to,
                action=planned.action,
            )
            for planned in ordered
        ),
        unassigned=tuple(main_key(planned.obj) for planned in counted if planned.to is None),
        unowned=tuple(unowned),
        reasons=unowned,
        refusals=tuple(map(str, refusals(snapshot.ring, snapshot.placer.layout.custom))),
        rebalance=None if for_balance is None else for_balance.report,
        summary=Summary(
            objects=len(counted),
            moves=sum(planned.current != planned.to for planned in counted),
            imbalance_before=imbalance(before, available),
            imbalance_after=imbalance(after, available),
        ),
    )


def _capacity(snapshot: RingSnapshot, tally: Tally, name: ShardName) -> dict[str, int] | None:
    placer = snapshot.placer
    shard = next((s for s in placer.layout.available if s.name == name), None)
    ceiling = None if shard is None else placer.ceilings(tally).of(shard)
    return None if ceiling is None else {OBJECTS: ceiling}

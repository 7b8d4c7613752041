"""Add the moves for balance to a plan, as the leader decides them.

The leader rebalances a ring while objects move.  A plan adds these moves after all its other
steps, so that it shows the final state.  It does not know the recent moves of the leader.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import RebalanceStrategy
from sharder.core.keys import main_key
from sharder.core.movement.desired import objection, reservation_on
from sharder.core.movement.step import Drain
from sharder.core.names import ShardName
from sharder.core.placement.strategy import Choice
from sharder.core.preview.plan import Planned, tally_after
from sharder.core.rebalance.balance import Balance
from sharder.core.rebalance.messages import number
from sharder.core.rebalance.run import Outcome
from sharder.core.rebalance.search import Move
from sharder.core.ring.snapshot import RingSnapshot, Role


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Balanced:
    """A plan with its moves for balance."""

    plan: list[Planned]
    report: BalanceReport
    balance: Balance

    def verdict(self, obj: PartialObject) -> str:
        """Return whether a main object would move for balance, and why, in one sentence."""
        key = main_key(obj)
        move = next((move for move in self.report.moves if move.object == key), None)
        if move is None:
            return self.balance.verdict(obj)
        if move.refused is not None:
            return f"would move to {move.target}, but cannot: {move.refused}"
        verdict = self.balance.verdict(obj)
        return f"{verdict}, but rebalance.dryRun is set" if self.report.dry_run else verdict


def is_rebalanced(snapshot: RingSnapshot) -> bool:
    """Return whether the ring has a rebalancing strategy."""
    return snapshot.ring.spec.rebalance.strategy is not RebalanceStrategy.NONE


def balanced(snapshot: RingSnapshot, plan: Sequence[Planned]) -> Balanced:
    """Return a plan with its moves for balance.

    `plan` contains all objects in scope, and was made with the same snapshot.
    """
    then = replace(snapshot, tally=tally_after(snapshot, plan))
    balance = _weighed(then, plan)
    outcome = balance.outcome()
    moves = _judged(replace(snapshot, tally=tally_after(snapshot, plan)), plan, outcome.moves)
    made = [move for move, refused in moves if not refused]
    dry_run = snapshot.ring.spec.rebalance.dry_run
    return Balanced(
        plan=list(plan) if dry_run else _moved(plan, made, outcome.noun),
        report=_report(snapshot, outcome, moves),
        balance=balance,
    )


def _weighed(then: RingSnapshot, plan: Iterable[Planned]) -> Balance:
    balance = Balance(then)
    for planned in plan:
        if planned.role is Role.CONTROLLED:
            balance.add_controlled(planned.obj)
        elif planned.to is not None:
            balance.add(planned.obj, to=planned.to)
    return balance


def _judged(
    then: RingSnapshot, plan: Iterable[Planned], moves: Sequence[Move]
) -> list[tuple[Move, str | None]]:
    """Return each move and why it cannot be made, None if it can; this changes `then`'s tally."""
    by_key = {main_key(planned.obj): planned for planned in plan} if moves else {}
    return [(move, _refusal(then, by_key[move.key].obj, move.target)) for move in moves]


def _refusal(then: RingSnapshot, obj: PartialObject, target: ShardName) -> str | None:
    """Return why a move cannot be made after the moves before it, else count it at its target.

    The search takes earlier moves into account, except for groups and pools.
    """
    why = objection(then, obj, target)
    reservation = reservation_on(then, obj, target)
    if why is None and then.tally is not None and reservation is not None:
        then.tally.assume(reservation)
    return why


def _moved(plan: Iterable[Planned], moves: Iterable[Move], noun: str) -> list[Planned]:
    by_key: Mapping[str, Move] = {move.key: move for move in moves}
    return [_drained(p, by_key.get(main_key(p.obj)), noun) for p in plan]


def _drained(planned: Planned, move: Move | None, noun: str) -> Planned:
    if move is None:
        return planned
    step = Drain(move.source, move.target)
    fall = f"from {number(move.before)} to {number(move.after)}"
    return replace(
        planned,
        choice=Choice(move.target),
        step=step,
        intent=step,
        balance=f"the {noun} of {move.source} falls {fall} without it",
    )


def _report(
    snapshot: RingSnapshot, outcome: Outcome, moves: Iterable[tuple[Move, str | None]]
) -> BalanceReport:
    spec = snapshot.ring.spec.rebalance
    return BalanceReport(
        strategy=spec.strategy,
        dry_run=spec.dry_run,
        measure=outcome.noun or None,
        threshold=outcome.threshold,
        shards=tuple(
            ShardMeasure(name=name, before=before, after=outcome.after[name])
            for name, before in outcome.before.items()
        ),
        moves=tuple(
            BalanceMove(
                object=move.key,
                source=move.source,
                target=move.target,
                before=move.before,
                after=move.after,
                refused=refused,
            )
            for move, refused in moves
        ),
        why=outcome.why,
    )

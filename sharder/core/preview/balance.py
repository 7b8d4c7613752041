"""Add the moves for balance to a plan, as the leader decides them.

The leader rebalances a ring while objects move.  A plan adds these moves after all its other
steps, so that it shows the final state.  It does not know the recent moves of the leader.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import RebalanceStrategy
from sharder.core.keys import main_key
from sharder.core.movement.desired import objection
from sharder.core.movement.step import Drain
from sharder.core.names import ShardName
from sharder.core.preview.simulation import Simulation
from sharder.core.rebalance.balance import Balance
from sharder.core.rebalance.messages import number
from sharder.core.rebalance.run import Move
from sharder.core.ring.snapshot import RingSnapshot


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
    """One rebalancing run, and what it knows about the other objects."""

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


def balanced(ring: Simulation, children: Iterable[PartialObject]) -> Balanced:
    """Move the objects of a settled ring for balance; a dry run moves only copies."""
    spec, balance = ring.at.ring.spec.rebalance, Balance(ring.copied())
    for known in ring.moves.values():
        owner = ring.at.owner_of(known.now)
        if owner is not None:
            balance.add(known.before, to=owner)
    for child in children:
        balance.add_controlled(child)
    outcome = balance.outcome()
    if spec.dry_run:
        ring = Simulation(ring.at, [known.now for known in ring.moves.values()])
    report = BalanceReport(
        strategy=spec.strategy,
        dry_run=spec.dry_run,
        measure=outcome.noun or None,
        threshold=outcome.threshold,
        shards=tuple(
            ShardMeasure(name=name, before=before, after=outcome.after[name])
            for name, before in outcome.before.items()
        ),
        moves=tuple([_moved(ring, move, outcome.noun) for move in outcome.moves]),
        why=outcome.why,
    )
    return Balanced(report=report, balance=balance)


def _moved(ring: Simulation, move: Move, noun: str) -> BalanceMove:
    """Make a move, unless that cannot be done after the moves before it.

    The search takes earlier moves into account, except for groups and pools.  The move is the step
    of the object: one that moves anyway is not chosen.
    """
    known = ring.moves[move.key]
    refused = objection(ring.at, known.now, move.target)
    if refused is None:
        ring.put(known, ring.on(known.now, move.target))
        fall = f"from {number(move.before)} to {number(move.after)}"
        known.balance = f"the {noun} of {move.source} falls {fall} without it"
        known.step = Drain(move.source, move.target)
    return BalanceMove(
        object=move.key,
        source=move.source,
        target=move.target,
        before=move.before,
        after=move.after,
        refused=refused,
    )

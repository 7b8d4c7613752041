"""One rebalancing run: which objects move, and why no other objects do (docs/rebalancing.md)."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from sharder.core.api.ring import RebalanceStrategy
from sharder.core.names import ShardName
from sharder.core.rebalance.equal_objects import STRIDE, Admits, Steps
from sharder.core.rebalance.loads import LoadedObject, LoadedShard
from sharder.core.rebalance.measures import (
    TOLERANCE,
    Fragmentation,
    HighestRate,
    Measure,
    ObjectsPerWeight,
    has_capacity,
    mean_and_sigma,
)
from sharder.core.rebalance.messages import OFF, ONE_SHARD, RunSummary, why
from sharder.core.rebalance.policy import RebalancePolicy
from sharder.core.rebalance.search import Move, Search, ShardSide

Numbers: TypeAlias = Mapping[ShardName, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one run."""

    moves: tuple[Move, ...] = ()
    """In order; no object moves twice."""
    noun: str = ""
    """The name of the measure, for people; empty if no shard was measured."""
    threshold: float | None = None
    """ResourceBalance: objects leave shards above it; None with other strategies."""
    before: Numbers
    """The measure of each shard: its fragmentation, highest rate, or objects per weight."""
    after: Numbers
    """The measure of each shard after all moves."""
    why: str
    """One sentence for people about the moves, or why there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A finished run and its final state."""

    summary: RunSummary
    search: Search
    moves: tuple[Move, ...]


def rebalancing(
    policy: RebalancePolicy,
    shards: Iterable[LoadedShard],
    objects: Iterable[LoadedObject],
    *,
    budget: int,
    admits: Admits,
    begun: Set[ShardName] = frozenset(),
) -> Steps[Outcome]:
    """Return the moves that balance a ring, in steps.

    If the budget does not end the run and the threshold is a number, another run on the result
    moves only objects that this run has moved.  With `Auto`, the threshold changes between runs,
    but further runs also end, because each move improves the worse of two shards.

    Args:
        policy: The policy of the ring.
        shards: The available shards, in any order.
        objects: The objects, in any order; those on other shards are ignored.
        budget: The maximum number of moves.
        admits: It must not change its answers during the run; it is called last.
        begun: The shards that objects left in the previous run: their moves continue, even if the
            remaining gain is small.
    """
    run = yield from running(policy, shards, objects, budget=budget, admits=admits, begun=begun)
    if isinstance(run, str):
        return Outcome(before={}, after={}, why=run)
    return outcome_of(run)


def outcome_of(run: Run) -> Outcome:
    """Return the outcome of a run."""
    return Outcome(
        moves=run.moves,
        noun=run.search.measure.noun,
        threshold=run.summary.threshold,
        before=run.summary.before,
        after={side.name: side.number for side in run.search.sides.values()},
        why=why(run.summary, run.search, run.moves),
    )


def running(
    policy: RebalancePolicy,
    shards: Iterable[LoadedShard],
    objects: Iterable[LoadedObject],
    *,
    budget: int,
    admits: Admits,
    begun: Set[ShardName] = frozenset(),
) -> Steps[Run | str]:
    """Return a run, or why there is none; the arguments are those of `rebalancing`."""
    if policy.strategy is RebalanceStrategy.NONE:
        return OFF
    sides = yield from sides_of(shards, objects)
    if len(sides) < 2:
        return ONE_SHARD
    return (yield from run_over(policy, sides, budget=budget, admits=admits, begun=begun))


def run_over(
    policy: RebalancePolicy,
    sides: dict[ShardName, ShardSide],
    *,
    budget: int,
    admits: Admits,
    begun: Set[ShardName],
) -> Steps[Run]:
    """Return a run over at least two shards; the arguments are those of `rebalancing`."""
    measure = measure_of(policy, sides.values())
    search = Search(measure, sides, admits)
    before = {side.name: side.number for side in sides.values()}
    yield
    found = yield from _found(search, budget, begun)
    summary = summary_of(policy, search, before, budget=budget, is_spent=found.is_spent)
    return Run(summary=replace(summary, weak=found.weak), search=search, moves=tuple(found.moves))


def summary_of(
    policy: RebalancePolicy,
    search: Search,
    before: dict[ShardName, float],
    *,
    budget: int,
    is_spent: bool,
) -> RunSummary:
    """Return how a run began, and whether it was completed."""
    measure = search.measure
    threshold = measure.threshold if isinstance(measure, Fragmentation) else None
    return RunSummary(
        policy=policy,
        threshold=threshold,
        before=before,
        budget=budget,
        is_spent=is_spent,
        weak={},
    )


def measure_of(policy: RebalancePolicy, sides: Iterable[ShardSide]) -> Measure:
    """Return the measure by which the shards are compared.

    EvenLoad uses rates only if all shards have capacities; otherwise some could not be compared.
    """
    sides = list(sides)
    if policy.strategy is RebalanceStrategy.EVEN_LOAD:
        if all(has_capacity(side.shard, policy.resources) for side in sides):
            return HighestRate(resources=policy.resources, min_difference=policy.min_gain)
        return ObjectsPerWeight()
    threshold = policy.threshold
    if threshold is None:
        measure = Fragmentation(resources=policy.resources, threshold=0.0, min_gain=0.0)
        threshold = sum(mean_and_sigma([measure.of(side.shard, side.load) for side in sides]))
    return Fragmentation(resources=policy.resources, threshold=threshold, min_gain=policy.min_gain)


class _Found(NamedTuple):
    moves: list[Move]
    is_spent: bool
    weak: dict[ShardName, float]


def _found(search: Search, budget: int, begun: Set[ShardName]) -> Steps[_Found]:
    """Return moves after which no source has further moves that gain enough.

    If the moves of a source gain too little together, the search is repeated without that source.
    Other moves can change this, so such a source is tried again after them.
    """
    moves: list[Move] = []
    weak: dict[ShardName, float] = {}
    while True:
        more, is_spent = yield from _to_rest(search, budget - len(moves))
        if is_spent:
            return _Found(moves + more, is_spent, {})
        too_weak = _too_weak([*moves, *more], search.measure.min_gain, begun)
        if too_weak:
            weak |= too_weak
            search.undo(without=weak.keys())
        elif more:
            moves += more
            weak = {}
            search.keep()
        else:
            return _Found(moves, is_spent, weak)


def _to_rest(search: Search, budget: int) -> Steps[tuple[list[Move], bool]]:
    """Return the moves that help, and whether there are more than the budget allows."""
    moves: list[Move] = []
    for move in search.moves():
        if move is None:
            yield
        elif len(moves) >= budget:
            return moves, True
        else:
            moves.append(move)
    return moves, False


def _too_weak(
    moves: Sequence[Move], min_gain: float, begun: Set[ShardName]
) -> dict[ShardName, float]:
    """Return the gain of each source whose moves together gain too little."""
    gains: dict[ShardName, float] = {}
    for move in moves:
        gains[move.source] = gains.get(move.source, 0.0) + move.before - move.after
    return {
        name: gain
        for name, gain in gains.items()
        if name not in begun and gain < min_gain - TOLERANCE
    }


def sides_of(
    shards: Iterable[LoadedShard], objects: Iterable[LoadedObject]
) -> Steps[dict[ShardName, ShardSide]]:
    """Return the shards with their objects, by name."""
    by_name = {shard.name: shard for shard in shards}
    held: dict[ShardName, list[LoadedObject]] = {name: [] for name in by_name}
    for number, obj in enumerate(objects, start=1):
        if not number % STRIDE:
            yield
        if obj.shard in held:
            held[obj.shard].append(obj)
    sides: dict[ShardName, ShardSide] = {}
    for name in sorted(by_name):
        sides[name] = ShardSide(by_name[name], held[name])
        if len(held[name]) > STRIDE:
            yield
    return sides

"""The result of a run, in one sentence for people."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from sharder.core.names import ShardName
from sharder.core.plurals import counted
from sharder.core.rebalance.equal_objects import ended
from sharder.core.rebalance.measures import HighestRate, falls, mean_and_sigma
from sharder.core.rebalance.policy import RebalancePolicy
from sharder.core.rebalance.search import Move, Search, ShardSide

OFF: Final = "rebalancing is off: spec.rebalance.strategy is None"
ONE_SHARD: Final = "rebalancing needs at least two available shards"

_WORTH_A_WORD: Final = 0.05
"""Fragmentation below any sensible threshold: half of the threshold in Koordinator's tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """How a run began, and whether it was completed."""

    policy: RebalancePolicy
    threshold: float | None
    before: dict[ShardName, float] = field(hash=False)
    budget: int
    is_spent: bool
    """Whether there were more moves than the budget allows."""
    weak: dict[ShardName, float] = field(hash=False)
    """The gain of all moves from a shard, for shards where it is less than the minimum."""


def why(summary: RunSummary, search: Search, moves: Sequence[Move]) -> str:
    """Return one sentence about all moves, or about why there are none."""
    sources = search.sources()
    if summary.is_spent:
        spent = f"the budget of {counted(summary.budget, 'move')} is spent"
        return f"{spent}: {_change(summary, search)}" if moves else spent
    if summary.threshold is None:
        rest = _standstill(summary, search, sources[:1])
        return f"{counted(len(moves), 'move')}: {_change(summary, search)}" if moves else rest
    above = f"above {threshold_in_words(summary)}"
    if moves:
        done = f"{counted(len(moves), 'move')}: {_change(summary, search)}"
        return f"{done}; {_stuck(summary, search, sources[0], above)}" if sources else done
    return _stuck(summary, search, sources[0], above) if sources else _no_source(summary, above)


def threshold_in_words(summary: RunSummary) -> str:
    """Return the threshold of ResourceBalance, and where it comes from."""
    if summary.policy.threshold is not None:
        return f"the threshold {number(summary.policy.threshold)}"
    mean, sigma = mean_and_sigma(list(summary.before.values()))
    origin = f"Auto: mean {number(mean)} + sigma {number(sigma)}"
    return f"the threshold {number(mean + sigma)} ({origin})"


def too_weak(summary: RunSummary, name: ShardName) -> str:
    """Return why no object leaves a shard although its moves would help."""
    gain = number(summary.weak[name])
    less = f"less than minGain {number(summary.policy.min_gain)}"
    return f"all useful moves from {name} together would gain {gain}, {less}"


def number(value: float) -> str:
    """Return a number for people."""
    return f"{round(value, 4):g}"


def _change(summary: RunSummary, search: Search) -> str:
    noun, numbers = search.measure.noun, [side.number for side in search.sides.values()]
    if summary.threshold is None:
        return f"the {noun} is {_span(numbers)} instead of {_span(summary.before.values())}"
    then = number(max(summary.before.values()))
    return f"the highest {noun} goes from {then} to {number(max(numbers))}"


def _span(numbers: Iterable[float]) -> str:
    lowest, *_, highest = sorted(numbers)
    return f"{number(lowest)} to {number(highest)}"


def _no_source(summary: RunSummary, above: str) -> str:
    worst = max(summary.before, key=lambda name: (summary.before[name], name))
    highest = summary.before[worst]
    if summary.policy.threshold is None and highest > _WORTH_A_WORD:
        return f'no shard is {above}; set rebalance.threshold to a number, such as "0.15"'
    return f"no shard is {above}: the worst is {worst} with {number(highest)}"


def _stuck(summary: RunSummary, search: Search, source: ShardSide, above: str) -> str:
    stays = f"{source.name} is {above} with {number(source.number)}"
    if source.name in summary.weak:
        return f"{stays}, but {too_weak(summary, source.name)}"
    return f"{stays}, but none of its objects can leave: {_breakdown(search, source)}"


def _standstill(summary: RunSummary, search: Search, worst: Sequence[ShardSide]) -> str:
    even = "no move makes the shards more even"
    if not worst:
        return f"{even}: they have no load"
    numbers = [side.number for side in search.sides.values()]
    span = f"the {search.measure.noun} is {_span(numbers)}"
    least = summary.policy.min_gain
    if isinstance(search.measure, HighestRate) and falls(least, max(numbers) - min(numbers)):
        return f"{even}: {span}, which differs by less than minGain {number(least)}"
    return f"{even}: {span}; of {worst[0].name}, {_breakdown(search, worst[0])}"


def _breakdown(search: Search, source: ShardSide) -> str:
    useless = placeless = 0
    for equivalence in (
        equivalence for of_rank in ended(search.sorts(source)) for equivalence in of_rank
    ):
        after = search.measure.of(source.shard, source.load, equivalence.relief)
        if search.measure.gains(source.number, after):
            placeless += len(equivalence.members)
        else:
            useless += len(equivalence.members)
    kept = sum(1 for obj in source.objects if obj.kept)
    parts = (
        (kept, "must stay"),
        (useless, "would gain nothing by leaving"),
        (placeless, "would find no better place"),
    )
    return ", ".join(f"{counted(many, 'object')} {what}" for many, what in parts if many)

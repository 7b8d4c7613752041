"""The result of a run, or for one object, in one sentence for people."""

from collections.abc import Iterable
from typing import Final

from sharder.core.names import ShardName
from sharder.core.plurals import counted
from sharder.core.rebalance.loads import LoadedObject
from sharder.core.rebalance.measures import TOLERANCE, Fullness, falls, mean_and_sigma
from sharder.core.rebalance.run import Run, ShardSide

_WORTH_A_WORD: Final = 0.05
"""Fragmentation below any sensible threshold: half of the threshold in Koordinator's tests."""


def why(run: Run) -> str:
    """Return one sentence about all moves, or about why there are none."""
    sources = run.sources()
    made = f"{counted(len(run.moves), 'move')}: {_change(run)}"
    if run.is_spent:
        spent = f"the budget of {counted(run.budget, 'move')} is spent"
        return f"{spent}: {_change(run)}" if run.moves else spent
    if run.threshold is None:
        return made if run.moves else _standstill(run, sources)
    if run.moves:
        return f"{made}; {_stuck(run, sources[0])}" if sources else made
    return _stuck(run, sources[0]) if sources else _no_source(run)


def verdict(run: Run, key: str) -> str:
    """Return whether an object moves in a run, and why, in one sentence."""
    for move in run.moves:
        if move.key == key:
            goes = f"goes from {number(move.before)} to {number(move.after)}"
            return f"would move to {move.target}: the {run.measure.noun} of {move.source} {goes}"
    for side in run.sides.values():
        for obj in side.objects:
            if obj.key == key:
                return _kept(run, side, obj) or _judged(run, side, obj)
    return "is not moved for balance: no available shard has it"


def number(value: float) -> str:
    """Return a number for people."""
    return f"{round(value, 4):g}"


def _kept(run: Run, source: ShardSide, obj: LoadedObject) -> str:
    """Return why the object stays regardless of its gain; empty if the gain decides."""
    noun, name, before = run.measure.noun, source.name, run.before[source.name]
    if obj.kept:
        return f"stays: it {obj.kept}"
    if run.threshold is not None and not run.measure.is_source(before):
        has = f"the {noun} of {name}, {number(before)},"
        return f"stays: {has} is not above {_threshold(run)}"
    if not run.measure.is_source(source.number):
        return f"stays: others leave {name} first, which is enough"
    if run.is_spent:
        return f"might move later: the budget of {counted(run.budget, 'move')} is spent"
    return ""


def _judged(run: Run, source: ShardSide, obj: LoadedObject) -> str:
    """Return why the object stays, given its gain."""
    relief = {name: -amount for name, amount in {**obj.load, "objects": 1.0}.items()}
    after = run.measure.of(source.shard, source.load, relief)
    if not run.measure.gains(source.number, after):
        fall = f"from {number(source.number)} to {number(after)}"
        wanted = "rise" if after > source.number + TOLERANCE else "not fall"
        return f"stays: without it the {run.measure.noun} of {source.name} would {wanted} ({fall})"
    if source.name in run.weak:
        return f"stays: {_too_weak(run, source.name)}"
    return "stays: no other shard with room for it would be a better place"


def _threshold(run: Run) -> str:
    """Return the threshold of ResourceBalance, and where it comes from."""
    if run.policy.threshold is not None:
        return f"the threshold {number(run.policy.threshold)}"
    mean, sigma = mean_and_sigma(list(run.before.values()))
    origin = f"Auto: mean {number(mean)} + sigma {number(sigma)}"
    return f"the threshold {number(mean + sigma)} ({origin})"


def _too_weak(run: Run, name: ShardName) -> str:
    """Return why no object leaves a shard although its moves would help."""
    gain, least = number(run.weak[name]), number(run.policy.min_gain)
    return f"all useful moves from {name} together would gain {gain}, less than minGain {least}"


def _change(run: Run) -> str:
    noun, numbers = run.measure.noun, [side.number for side in run.sides.values()]
    if run.threshold is None:
        return f"the {noun} is {_span(numbers)} instead of {_span(run.before.values())}"
    then = number(max(run.before.values()))
    return f"the highest {noun} goes from {then} to {number(max(numbers))}"


def _span(numbers: Iterable[float]) -> str:
    lowest, *_, highest = sorted(numbers)
    return f"{number(lowest)} to {number(highest)}"


def _no_source(run: Run) -> str:
    worst = max(run.before, key=lambda name: (run.before[name], name))
    highest = run.before[worst]
    if run.policy.threshold is None and highest > _WORTH_A_WORD:
        numeric = 'set rebalance.threshold to a number, such as "0.15"'
        return f"no shard is above {_threshold(run)}; {numeric}"
    return f"no shard is above {_threshold(run)}: the worst is {worst} with {number(highest)}"


def _stuck(run: Run, source: ShardSide) -> str:
    stays = f"{source.name} is above {_threshold(run)} with {number(source.number)}"
    if source.name in run.weak:
        return f"{stays}, but {_too_weak(run, source.name)}"
    return f"{stays}, but none of its objects can leave"


def _standstill(run: Run, sources: list[ShardSide]) -> str:
    even = "no move makes the shards more even"
    if not sources:
        return f"{even}: they have no load"
    numbers = [side.number for side in run.sides.values()]
    span, least = f"the {run.measure.noun} is {_span(numbers)}", run.policy.min_gain
    is_rate = isinstance(run.measure, Fullness) and bool(run.measure.resources)
    if is_rate and falls(least, max(numbers) - min(numbers)):
        return f"{even}: {span}, which differs by less than minGain {number(least)}"
    return f"{even}: {span}"

"""Why one object would move for balance, or would not."""

from collections.abc import Iterable
from typing import Final

from sharder.core.plurals import counted
from sharder.core.rebalance.equal_objects import Admits, ended
from sharder.core.rebalance.loads import LoadedObject, LoadedShard
from sharder.core.rebalance.measures import TOLERANCE
from sharder.core.rebalance.messages import number, threshold_in_words, too_weak
from sharder.core.rebalance.policy import RebalancePolicy
from sharder.core.rebalance.run import Run, running
from sharder.core.rebalance.search import Search, ShardSide

_SHOWN: Final = 5
"""Maximum shards that a sentence names."""


def verdict(
    policy: RebalancePolicy,
    shards: Iterable[LoadedShard],
    objects: Iterable[LoadedObject],
    key: str,
    *,
    budget: int,
    admits: Admits,
) -> str:
    """Return whether the object moves in a rebalancing run, and why, in one sentence."""
    objects = list(objects)
    run = ended(running(policy, shards, objects, budget=budget, admits=admits))
    if isinstance(run, str):
        return f"stays: {run}"
    obj = next((found for found in objects if found.key == key), None)
    if obj is None or obj.shard not in run.search.sides:
        return "is not moved for balance: no available shard has it"
    return _moved(run, key) or _kept(run, obj) or _judged(run, obj)


def _moved(run: Run, key: str) -> str:
    noun = run.search.measure.noun
    for move in run.moves:
        if move.key == key:
            fall = f"from {number(move.before)} to {number(move.after)}"
            return f"would move to {move.target}: the {noun} of {move.source} goes {fall}"
    return ""


def _kept(run: Run, obj: LoadedObject) -> str:
    """Return why the object stays regardless of its gain; empty if the gain decides."""
    summary, measure, name = run.summary, run.search.measure, obj.shard
    if obj.kept:
        return f"stays: it {obj.kept}"
    if summary.threshold is not None and not measure.is_source(summary.before[name]):
        has = f"the {measure.noun} of {name}, {number(summary.before[name])},"
        return f"stays: {has} is not above {threshold_in_words(summary)}"
    if not measure.is_source(run.search.sides[name].number):
        return f"stays: others leave {name} first, which is enough"
    if summary.is_spent:
        return f"might move later: the budget of {counted(summary.budget, 'move')} is spent"
    return ""


def _judged(run: Run, obj: LoadedObject) -> str:
    search, measure, source = run.search, run.search.measure, run.search.sides[obj.shard]
    relief = {name: -amount for name, amount in obj.load.items()}
    after = measure.of(source.shard, source.load, relief)
    if not measure.gains(source.number, after):
        fall = f"from {number(source.number)} to {number(after)}"
        wanted = "rise" if after > source.number + TOLERANCE else "not fall"
        return f"stays: without it the {measure.noun} of {source.name} would {wanted} ({fall})"
    if source.name in run.summary.weak:
        return f"stays: {too_weak(run.summary, source.name)}"
    others = [side for side in search.sides.values() if side is not source]
    found = [f"{side.name} {_objection(search, source, side, obj)}" for side in others[:_SHOWN]]
    more = len(others) - len(found)
    found += [f"and {more} more"] if more else []
    return f"stays: no other shard is a better place ({', '.join(found)})"


def _objection(search: Search, source: ShardSide, target: ShardSide, obj: LoadedObject) -> str:
    if objection := search.objection(source, target, obj.load):
        return objection
    return "cannot take it"

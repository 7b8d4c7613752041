"""Facts about what rebalancing tells people: of a run, and of one object."""

from collections.abc import Iterable

import pytest

from sharder.core.api.ring import RebalanceStrategy
from sharder.core.rebalance.loads import LoadedObject, LoadedShard
from sharder.core.rebalance.messages import verdict
from sharder.core.rebalance.packed import run_of
from sharder.core.rebalance.policy import RebalancePolicy
from tests.support.values_rebalance import (
    Admits,
    admits_all,
    balance,
    even,
    many,
    obj,
    packed,
    plain,
    run,
    shard,
)

HUGE = 1e9
PAIR = (shard("a"), shard("b", HUGE, HUGE))
X = obj("x", "a", 50, 0)
EIGHT = [obj(str(number), "a", 10, 0) for number in range(8)]


def told(
    policy: RebalancePolicy,
    shards: Iterable[LoadedShard],
    objects: Iterable[LoadedObject],
    *,
    key: str = "x",
    budget: int = 100,
    admits: Admits = admits_all,
) -> str:
    """What is said of an object."""
    found = run_of(packed(policy, shards, objects, budget=budget, admits=admits))
    return f"stays: {found}" if isinstance(found, str) else verdict(found, key)


RUNS = {
    "no number is recommended where nothing is wrong": (
        run(balance(None), PAIR, []),
        "no shard is above the threshold 0 (Auto: mean 0 + sigma 0)",
    ),
    "one move": (
        run(balance(0.15), PAIR, [X, obj("y", "a", 10, 0)]),
        "1 move: the fragmentation is 0 to 0.05 instead of 0 to 0.3",
    ),
    "a budget that is just enough is not spent": (
        run(balance(0.2), PAIR, EIGHT, budget=4),
        "4 moves: the fragmentation is 0 to 0.2 instead of 0 to 0.4",
    ),
    "a shard whose objects must stay": (
        run(balance(0.15), PAIR, [obj("y", "a", 40, 0, kept="is pinned")]),
        "a is above the threshold 0.15 with 0.2, but none of its objects can leave",
    ),
    "what would bring too little": (
        run(balance(0.15), PAIR, [obj(str(number), "a", 1, 0) for number in range(32)]),
        "a is above the threshold 0.15 with 0.16, but all its moves would gain 0.01, less than "
        "minGain 0.02",
    ),
    "a spent budget": (
        run(balance(0.2), PAIR, EIGHT, budget=1),
        "the budget of 1 move is spent: the fragmentation is 0 to 0.35 instead of 0 to 0.4",
    ),
    "even shards": (
        run(even(), (plain("a"), plain("b")), [*many("a", 2), *many("b", 1)]),
        "no move makes the shards more even: the number of objects by weight is 1 to 2",
    ),
}


@pytest.mark.parametrize("case", RUNS)
def test_a_run_is_reported(case: str) -> None:
    outcome, said = RUNS[case]

    assert outcome.why == said


VERDICTS = {
    "one that moves": (
        told(balance(0.15), PAIR, [X, obj("y", "a", 10, 0)]),
        "would move to b: the fragmentation of a goes from 0.3 to 0.05",
    ),
    "rebalancing is off": (
        told(RebalancePolicy(strategy=RebalanceStrategy.NONE), PAIR, [X]),
        "stays: rebalancing is off: spec.rebalance.strategy is None",
    ),
    "one shard": (
        told(balance(), PAIR[:1], [X]),
        "stays: rebalancing needs at least two available shards",
    ),
    "one that must stay": (
        told(balance(), PAIR, [obj("x", "a", 60, 0, kept="is pinned")]),
        "stays: it is pinned",
    ),
    "one that the run does not move": (
        told(balance(0.4), PAIR, [obj("x", "a", 60, 0)]),
        "stays: no shard is above the threshold 0.4",
    ),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_the_verdict_on_an_object_is_reported(case: str) -> None:
    verdict_of_it, said = VERDICTS[case]

    assert verdict_of_it == said

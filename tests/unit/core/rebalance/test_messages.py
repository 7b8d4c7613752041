"""Facts about what rebalancing tells people of a run."""

import pytest

from sharder.core.api.ring import RebalanceStrategy
from sharder.core.rebalance.measures import RebalancePolicy
from tests.support.values_rebalance import balance, even, many, obj, plain, run, shard

HUGE = 1e9
PAIR = (shard("a"), shard("b", HUGE, HUGE))
X = obj("x", "a", 50, 0)
EIGHT = [obj(str(number), "a", 10, 0) for number in range(8)]


RUNS = {
    "no number is recommended where nothing is wrong": (
        run(balance(None), PAIR, []),
        "no shard is above the threshold 0 (Auto: mean 0 + sigma 0)",
    ),
    "rebalancing is off": (
        run(RebalancePolicy(strategy=RebalanceStrategy.NONE), PAIR, [X]),
        "rebalancing is off: spec.rebalance.strategy is None",
    ),
    "one shard": (
        run(balance(), PAIR[:1], [X]),
        "rebalancing needs at least two available shards",
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
        run(balance(0.15), PAIR, [obj("y", "a", 40, 0, kept=True)]),
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

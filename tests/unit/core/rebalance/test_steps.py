"""A look is taken in steps of some milliseconds, for the webhook answers beside it."""

import pytest

from sharder.core.names import ShardName
from sharder.core.rebalance.equal_objects import STRIDE, Steps, T, sorts_of
from sharder.core.rebalance.run import rebalancing
from tests.support.values_rebalance import balance, obj, shard


def walked(steps: Steps[T]) -> int:
    """Take all steps; return how many there were."""
    return sum(1 for _ in steps)


@pytest.mark.parametrize("distinct", [0.0, 0.001], ids=["all equivalence", "no two equivalence"])
def test_no_step_asks_about_more_than_one_object_though_none_may_move(distinct: float) -> None:
    objects = [obj(str(n), "a", 1 + distinct * n, 0.1) for n in range(100)]
    asked, most = 0, 0

    def admits(_key: str, _target: ShardName) -> bool:
        nonlocal asked
        asked += 1
        return False

    shards = [shard(name, cpu=300) for name in "abcdef"]
    for _ in rebalancing(balance(0.01), shards, objects, budget=5, admits=admits):
        most, asked = max(most, asked), 0

    assert most == 1


@pytest.mark.parametrize("distinct", [0.0, 0.001], ids=["all equivalence", "no two equivalence"])
def test_many_objects_are_sorted_in_several_steps(distinct: float) -> None:
    objects = [obj(str(n), "a", 1 + distinct * n) for n in range(3 * STRIDE)]

    assert walked(sorts_of(objects, ["cpu"])) >= 3

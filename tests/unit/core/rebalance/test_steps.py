"""A look is taken in steps of some milliseconds, for the webhook answers beside it."""

import pytest

from sharder.core.names import ShardName
from sharder.core.rebalance.equal_objects import STRIDE, Steps, T, ended, sorts_of
from sharder.core.rebalance.run import rebalancing
from tests.support.values_rebalance import admits_all, balance, even, obj, shard


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


def test_each_sort_of_objects_that_finds_no_target_is_a_step_of_its_own() -> None:
    objects = [obj(str(n), "a", 1 + 0.001 * n, 0.1) for n in range(100)]
    full = [shard(name, cpu=0.5) for name in "bcdef"]

    steps = walked(rebalancing(even(), [shard("a"), *full], objects, budget=5, admits=admits_all))

    assert steps >= len(objects)


def test_each_source_is_a_step_of_its_own() -> None:
    shards = [shard(str(n)) for n in range(100)]
    objects = [obj(str(n), str(n), 50, 0) for n in range(100)]

    steps = walked(rebalancing(even(), shards, objects, budget=5, admits=admits_all))

    assert steps >= len(shards)


@pytest.mark.parametrize("distinct", [0.0, 0.001], ids=["all equivalence", "no two equivalence"])
def test_many_objects_are_sorted_in_several_steps(distinct: float) -> None:
    objects = [obj(str(n), "a", 1 + distinct * n) for n in range(3 * STRIDE)]

    assert walked(sorts_of(objects, ["cpu"])) >= 3


def test_many_sorts_of_objects_are_measured_in_several_steps() -> None:
    objects = [obj(str(n), "a", 0, 0.001 * n) for n in range(1, 2 * STRIDE)]
    base = [obj("base", "a", 50, 0, kept="stays")]
    shards = [shard("a", memory=10_000), shard("b", memory=10_000)]
    sorting = walked(sorts_of(objects, ["cpu", "memory", "objects"]))

    # Without any of them the shard would be worse: they are measured, and no more.
    steps = walked(rebalancing(balance(), shards, base + objects, budget=5, admits=admits_all))

    assert steps > sorting + 2


def test_what_all_steps_come_to_is_what_they_return() -> None:
    objects = [obj(str(n), "a", 1) for n in range(3)]

    assert [len(equivalence) for equivalence in ended(sorts_of(objects, ["cpu"]))] == [1]

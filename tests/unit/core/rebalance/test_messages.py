"""Facts about what rebalancing tells people: of a run, and of one object."""

from collections.abc import Iterable

import pytest

from sharder.core.api.ring import RebalanceStrategy
from sharder.core.rebalance.equal_objects import Admits
from sharder.core.rebalance.explain import verdict
from sharder.core.rebalance.loads import LoadedObject, LoadedShard
from sharder.core.rebalance.policy import RebalancePolicy
from tests.support.values_rebalance import (
    admits_all,
    balance,
    even,
    many,
    obj,
    plain,
    run,
    shard,
)

HUGE = 1e9
PAIR = (shard("a"), shard("b", HUGE, HUGE))
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
    return verdict(policy, shards, objects, key, budget=budget, admits=admits)


def test_a_balanced_ring_is_reported_as_such() -> None:
    objects = [obj("x", "a", 30, 10)]

    assert run(balance(0.15), PAIR, objects).why == (
        "no shard is above the threshold 0.15: the worst is a with 0.1"
    )


def test_no_number_is_recommended_where_nothing_is_wrong() -> None:
    objects = [obj("x", "a", 30, 30), obj("y", "b", 20, 20)]

    assert run(balance(None), PAIR, objects).why == (
        "no shard is above the threshold 0 (Auto: mean 0 + sigma 0): the worst is b with 0"
    )


def test_moves_are_counted_and_what_they_bring_is_reported() -> None:
    one = run(balance(0.15), PAIR, [obj("x", "a", 50, 0), obj("y", "a", 10, 0)])
    four = run(balance(0.2), PAIR, EIGHT)

    assert one.why == "1 move: the highest fragmentation goes from 0.3 to 0.05"
    assert four.why == "4 moves: the highest fragmentation goes from 0.4 to 0.2"


def test_a_shard_that_stays_above_the_threshold_is_named() -> None:
    objects = [obj("x", "a", 50, 0), obj("y", "a", 40, 0, kept="is pinned")]

    assert run(balance(0.15), PAIR, objects).why == (
        "1 move: the highest fragmentation goes from 0.45 to 0.2; "
        "a is above the threshold 0.15 with 0.2, but none of its objects can leave: "
        "1 object must stay"
    )


def test_why_nothing_can_leave_a_shard_is_reported() -> None:
    objects = [
        obj("x", "a", 50, 0),
        obj("y", "a", 40, 0, kept="is pinned"),
        obj("z", "a", 0, 1),
        obj("v", "a", 1, 1),
    ]

    outcome = run(balance(0.15), PAIR, objects, admits=lambda *_: False)

    assert outcome.why == (
        "a is above the threshold 0.15 with 0.445, but none of its objects can leave: "
        "1 object must stay, 2 objects would gain nothing by leaving, "
        "1 object would find no better place"
    )


def test_what_would_bring_too_little_is_reported() -> None:
    objects = [obj(str(number), "a", 1, 0) for number in range(32)]

    assert run(balance(0.15), PAIR, objects).why == (
        "a is above the threshold 0.15 with 0.16, but all useful moves from a "
        "together would gain 0.01, less than minGain 0.02"
    )


def test_shards_that_hardly_differ_are_reported_as_such() -> None:
    objects = [obj("x", "a", 1, 0), obj("y", "a", 0.5, 0)]

    assert run(even(), [shard(name) for name in "ab"], objects).why == (
        "no move makes the shards more even: the rate is 0 to 0.015, "
        "which differs by less than minGain 0.02"
    )


def test_a_spent_budget_is_reported_even_if_there_was_none() -> None:
    assert run(balance(0.2), PAIR, EIGHT, budget=0).why == "the budget of 0 moves is spent"
    assert run(balance(0.2), PAIR, EIGHT, budget=1).why == (
        "the budget of 1 move is spent: the highest fragmentation goes from 0.4 to 0.35"
    )


def test_a_budget_that_is_just_enough_is_not_reported_as_spent() -> None:
    assert run(balance(0.2), PAIR, EIGHT, budget=4).why.startswith("4 moves")


def test_even_shards_are_reported_as_even() -> None:
    outcome = run(even(), (plain("a"), plain("b")), [*many("a", 2), *many("b", 1)])

    assert outcome.why == (
        "no move makes the shards more even: the number of objects by weight is 1 to 2; "
        "of a, 2 objects would find no better place"
    )


def test_shards_without_objects_are_reported_without_load() -> None:
    assert run(even(), (plain("a"), plain("b")), []).why == (
        "no move makes the shards more even: they have no load"
    )


def test_an_object_that_moves_is_reported_with_target_and_gain() -> None:
    objects = [obj("x", "a", 50, 0), obj("y", "a", 10, 0)]

    assert told(balance(0.15), PAIR, objects) == (
        "would move to b: the fragmentation of a goes from 0.3 to 0.05"
    )


@pytest.mark.parametrize(
    ("policy", "shards", "why"),
    [
        (
            RebalancePolicy(strategy=RebalanceStrategy.NONE),
            PAIR,
            "stays: rebalancing is off: spec.rebalance.strategy is None",
        ),
        (
            balance(),
            PAIR[:1],
            "stays: rebalancing needs at least two available shards",
        ),
        (
            balance(0.4),
            PAIR,
            "stays: the fragmentation of a, 0.3, is not above the threshold 0.4",
        ),
    ],
)
def test_an_object_of_a_ring_that_moves_nothing_stays(
    policy: RebalancePolicy, shards: tuple[LoadedShard, ...], why: str
) -> None:
    assert told(policy, shards, [obj("x", "a", 60, 0)]) == why


@pytest.mark.parametrize("objects", [[], [obj("x", "gone")]])
def test_an_object_that_no_shard_has_is_not_moved_for_balance(
    objects: list[LoadedObject],
) -> None:
    assert told(balance(), PAIR, objects) == (
        "is not moved for balance: no available shard has it"
    )


def test_an_object_that_must_stay_has_a_reason() -> None:
    assert told(balance(), PAIR, [obj("x", "a", 60, 0, kept="is pinned")]) == (
        "stays: it is pinned"
    )


def test_an_object_stays_if_others_are_enough() -> None:
    assert told(balance(0.2), PAIR, EIGHT, key="7") == (
        "stays: others leave a first, which is enough"
    )


def test_an_object_waits_if_the_budget_is_spent_on_others() -> None:
    assert told(balance(0.2), PAIR, EIGHT, key="7", budget=1) == (
        "might move later: the budget of 1 move is spent"
    )


def test_an_object_whose_leaving_harms_its_shard_stays() -> None:
    objects = [obj("x", "a", 0, 10), obj("y", "a", 50, 0, kept="is pinned")]

    assert told(balance(), PAIR, objects) == (
        "stays: without it the fragmentation of a would rise (from 0.2 to 0.25)"
    )


def test_an_object_whose_leaving_brings_too_little_stays() -> None:
    objects = [obj("x", "a", 2, 0), obj("y", "a", 50, 0, kept="is pinned")]

    assert told(balance(), PAIR, objects) == (
        "stays: all useful moves from a together would gain 0.01, less than minGain 0.02"
    )


def test_an_object_whose_leaving_brings_nothing_stays() -> None:
    objects = [obj("x", "a", 2, 2), obj("y", "a", 50, 0, kept="is pinned")]

    assert told(balance(), PAIR, objects) == (
        "stays: without it the fragmentation of a would not fall (from 0.25 to 0.25)"
    )


def test_an_object_without_a_target_is_reported_with_every_shard() -> None:
    shards = (
        shard("a"),
        shard("b"),
        shard("c", 30),
        shard("d", HUGE, HUGE, open=False),
        shard("e", HUGE, HUGE, room=0),
        shard("f", HUGE, HUGE),
    )

    why = told(balance(), shards, [obj("x", "a", 60, 0)], admits=lambda *_: False)

    assert why == (
        "stays: no other shard is a better place (b has 0 and would have 0.3, "
        "c has no room for its cpu, d gets no new objects, e has no room for its objects, "
        "f cannot take it)"
    )


def test_some_of_many_shards_are_reported() -> None:
    shards = [shard(name) for name in "abcdefgh"]

    assert told(balance(), shards, [obj("x", "a", 60, 0)]).endswith(
        "f has 0 and would have 0.3, and 2 more)"
    )


def test_an_object_of_a_shard_that_is_less_full_than_others_stays() -> None:
    objects = [*many("a", 3), *many("b", 1)]

    assert told(even(), (plain("a"), plain("b")), objects, key="b0") == (
        "stays: no other shard is a better place (a has 2 and would have 3)"
    )

"""Facts about `sharder.core.rebalance.run`: what moves, where to, in which order, and why not."""

import math

import pytest
from msgspec.structs import replace

from sharder.core.rebalance.loads import LoadedShard
from sharder.core.rebalance.measures import MAX_RATE, fragmentation, rates
from tests.support.values_rebalance import (
    A,
    B,
    C,
    D,
    balance,
    even,
    many,
    moved,
    obj,
    plain,
    run,
    shard,
)

STORY = (
    obj("x", "a", 20, 0),
    obj("y", "a", 70, 50),
    obj("v", "b", 50, 70),
    obj("w", "b", 0, 20),
)


LOPSIDED = (obj("big", "a", 50, 0), obj("even", "a", 20, 20), obj("small", "a", 10, 0))
"""A shard with fragmentation 0.3."""


@pytest.mark.parametrize(
    "small", [LoadedShard(name=B, capacity={"objects": 2.0}), plain("b", room=2)]
)
def test_a_shard_gets_no_more_objects_than_it_declares_or_has_room_for(small: LoadedShard) -> None:
    assert run(even(), (plain("a"), small), many("a", 9)).after == {A: 7, B: 2}


def test_a_shard_that_is_not_open_gives_up_and_does_not_get() -> None:
    closed = shard("b", 1e12, 1e12, open=False)

    assert run(balance(0.15), (shard("a"), closed), LOPSIDED).moves == []
    outcome = run(balance(0.15), (shard("a", open=False), shard("b", 1e12, 1e12)), LOPSIDED)
    assert moved(outcome) == {"big": "b"}


def test_a_shard_that_joins_gets_its_share_of_the_objects() -> None:
    objects = [*many("a", 3), *many("b", 3), *many("c", 3)]

    outcome = run(even(), [plain(name) for name in "abcd"], objects)

    assert outcome.after == {A: 2, B: 2, C: 3, D: 2}
    assert outcome.threshold is None
    assert outcome.why == ("2 moves: the number of objects by weight is 2 to 3 instead of 0 to 3")


def test_moves_that_gain_too_little_together_are_not_made() -> None:
    objects = [obj("x", "a", 2, 0), obj("z", "a", 4, 0), obj("y", "a", 47, 0, kept=True)]
    shards = (shard("a"), shard("b"))

    assert run(balance(0.15, min_gain=0.04), shards, objects).moves == []
    assert moved(run(balance(0.15, min_gain=0.03), shards, objects)) == {"x": "b", "z": "b"}


def test_what_the_budget_has_ended_is_not_judged_by_its_gain() -> None:
    objects = [obj(str(number), "a", 1, 0) for number in range(40)]

    outcome = run(balance(0.15), (shard("a"), shard("b", 1e12, 1e12)), objects, budget=3)

    assert len(outcome.moves) == 3


def test_a_group_is_never_less_spread_than_before() -> None:
    objects = [replace(found, groups=(7,)) for found in many("a", 4)]

    outcome = run(even(), (plain("a"), plain("b", weight=3.0)), objects)

    assert outcome.after == {A: 2.0, B: 2 / 3}


def test_a_move_that_another_one_makes_useful_is_found() -> None:
    objects = [
        obj("x", "a", 30, 0),
        obj("y", "a", 30, 0, kept=True),
        obj("z", "b", 25, 0),
        obj("w", "b", 25, 0, kept=True),
    ]
    shards = [shard(name) for name in "abc"]

    outcome = run(even(), shards, objects, admits=lambda key, target: (key, target) != ("x", C))

    assert [(move.key, move.target) for move in outcome.moves] == [("z", C), ("x", B)]


def test_auto_finds_no_source_among_two_equally_bad_shards() -> None:
    outcome = run(balance(None), (shard("a"), shard("b")), STORY)

    assert outcome.moves == []
    assert outcome.threshold == pytest.approx(0.2)
    assert outcome.why == (
        "no shard is above the threshold 0.2 (Auto: mean 0.2 + sigma 0); "
        'set rebalance.threshold to a number, such as "0.15"'
    )


def test_of_equal_objects_the_youngest_moves_first_then_by_key() -> None:
    objects = [
        obj("a", "a", 10, 0, created="2026-01-01T00:00:00Z"),
        obj("c", "a", 10, 0, created="2026-03-01T00:00:00Z"),
        obj("d", "a", 20, 10, created="2026-02-01T00:00:00Z"),
        obj("b", "a", 10, 0, created="2026-03-01T00:00:00Z"),
        obj("e", "a", 10, 0),
    ]

    outcome = run(balance(0.0), (shard("a"), shard("b", 1e12, 1e12)), objects)

    assert [move.key for move in outcome.moves] == ["b", "c", "d", "a", "e"]


def test_of_targets_that_end_alike_the_one_with_fewer_objects_is_taken_then_by_name() -> None:
    objects = [*LOPSIDED, obj("p", "b", 10, 10), obj("q", "c", 5, 5), obj("r", "c", 5, 5)]
    shards = [shard(name, 1e12, 1e12) for name in "bcd"]

    assert moved(run(balance(0.15), (shard("a"), *shards), objects)) == {"big": "d"}
    assert moved(run(balance(0.15), (shard("a"), *shards[:2]), objects)) == {"big": "b"}


# What people are told of a run


HUGE = 1e9
PAIR = (shard("a"), shard("b", HUGE, HUGE))
X = obj("x", "a", 50, 0)
EIGHT = [obj(str(number), "a", 10, 0) for number in range(8)]


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


# Measures


BOTH = ("cpu", "memory")


def test_an_implausible_rate_is_capped() -> None:
    found = rates(BOTH, shard("a", cpu=1e-108), {"cpu": 1e117})

    assert found == [MAX_RATE, 0.0]
    assert math.isfinite(fragmentation([*found, 0.0]))
    assert fragmentation([]) == 0

"""Facts about `sharder.core.rebalance.run`: what moves, where to, and in which order."""

import pytest
from msgspec.structs import replace

from sharder.core.api.ring import RebalanceStrategy
from sharder.core.rebalance.loads import LoadedShard
from sharder.core.rebalance.policy import RebalancePolicy
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
"""The proposal's first story: 0.9 and 0.5 here, 0.5 and 0.9 there."""

LOPSIDED = (obj("big", "a", 50, 0), obj("even", "a", 20, 20), obj("small", "a", 10, 0))
"""A shard with fragmentation 0.3."""


def test_auto_finds_no_source_among_two_equally_bad_shards() -> None:
    outcome = run(balance(None), (shard("a"), shard("b")), STORY)

    assert outcome.moves == ()
    assert outcome.threshold == pytest.approx(0.2)
    assert outcome.why == (
        "no shard is above the threshold 0.2 (Auto: mean 0.2 + sigma 0); "
        'set rebalance.threshold to a number, such as "0.15"'
    )


def test_of_targets_that_end_alike_the_one_with_fewer_objects_is_taken_then_by_name() -> None:
    objects = [*LOPSIDED, obj("p", "b", 10, 10), obj("q", "c", 5, 5), obj("r", "c", 5, 5)]
    shards = [shard(name, 1e12, 1e12) for name in "bcd"]

    assert moved(run(balance(0.15), (shard("a"), *shards), objects)) == {"big": "d"}
    assert moved(run(balance(0.15), (shard("a"), *shards[:2]), objects)) == {"big": "b"}


def test_a_target_has_room_in_every_resource_that_the_object_loads() -> None:
    objects = [obj("x", "a", 50, 0), obj("y", "a", 10, 10), obj("p", "b", 60, 80)]

    assert run(balance(0.15), (shard("a"), shard("b")), objects).moves == ()
    assert moved(run(balance(0.15), (shard("a"), shard("b", 110)), objects)) == {"x": "b"}


@pytest.mark.parametrize(
    "small", [LoadedShard(name=B, capacity={"objects": 2.0}), plain("b", room=2)]
)
def test_a_shard_gets_no_more_objects_than_it_declares_or_has_room_for(small: LoadedShard) -> None:
    assert run(even(), (plain("a"), small), many("a", 9)).after == {A: 7, B: 2}


def test_a_shard_that_is_not_open_gives_up_and_does_not_get() -> None:
    closed = shard("b", 1e12, 1e12, open=False)

    assert run(balance(0.15), (shard("a"), closed), LOPSIDED).moves == ()
    outcome = run(balance(0.15), (shard("a", open=False), shard("b", 1e12, 1e12)), LOPSIDED)
    assert moved(outcome) == {"big": "b"}


def test_what_goes_to_one_shard_does_not_hide_what_may_go_to_another() -> None:
    objects = [obj("1", "a", 30, 0), obj("2", "a", 30, 0)]
    shards = (shard("a"), shard("b", 1e12, 1e12), shard("c", 1e12, 1e12))
    allowed = {("2", B), ("1", C)}

    outcome = run(balance(0.0), shards, objects, admits=lambda k, t: (k, t) in allowed)

    assert [(move.key, move.target) for move in outcome.moves] == [("1", C), ("2", B)]


def test_the_smaller_rank_is_moved_before_the_greater_gain() -> None:
    objects = (obj("best", "a", 50, 0, rank=1), obj("weak", "a", 20, 0), obj("rest", "a", 10, 10))

    outcome = run(balance(0.3), (shard("a"), shard("b", 1e12, 1e12)), objects)

    assert [move.key for move in outcome.moves] == ["weak"]


def test_within_one_rank_the_move_with_the_least_fragmentation_comes_first() -> None:
    outcome = run(balance(0.25), (shard("a"), shard("b", 1e12, 1e12)), LOPSIDED[::-1])

    assert [move.key for move in outcome.moves] == ["big"]


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


def test_an_object_that_must_stay_does_not_change_the_order_of_others() -> None:
    # Of the equal objects with the youngest one, only an old one can move.
    objects = [
        obj("young", "a", 10, 0, created="2026-03-01T00:00:00Z"),
        obj("old", "a", 10, 0, created="2026-01-01T00:00:00Z"),
        obj("middle", "a", 20, 10, created="2026-02-01T00:00:00Z"),
    ]
    shards = (shard("a"), shard("b", 1e12, 1e12))

    outcome = run(balance(0.0), shards, objects, admits=lambda key, _: key != "young")

    assert [move.key for move in outcome.moves] == ["middle", "old"]


def test_objects_move_in_order_whichever_equal_objects_must_stay() -> None:
    # The first of each kind must stay; the others have the same age, or not.
    objects = [
        obj("a", "a", 10, 0, created="2026-03-01T00:00:00Z"),
        obj("d", "a", 10, 0, created="2026-02-01T00:00:00Z"),
        obj("b", "a", 20, 10, created="2026-03-01T00:00:00Z"),
        obj("c", "a", 20, 10, created="2026-02-01T00:00:00Z"),
        obj("e", "a", 30, 20, created="2026-02-01T00:00:00Z"),
        obj("f", "a", 40, 30, created="2026-03-01T00:00:00Z"),
        obj("g", "a", 40, 30, created="2026-01-01T00:00:00Z"),
    ]
    shards = (shard("a"), shard("b", 1e12, 1e12))

    outcome = run(balance(0.0), shards, objects, admits=lambda key, _: key not in "abf")

    assert [move.key for move in outcome.moves] == ["c", "d", "e", "g"]


def test_an_object_without_load_is_not_moved() -> None:
    objects = [obj("idle", "a"), obj("x", "a", 50, 0, kept="is pinned")]

    outcome = run(balance(0.1, min_gain=0.0), (shard("a"), shard("b")), objects)

    assert outcome.moves == ()


def test_without_a_strategy_nothing_is_looked_at() -> None:
    outcome = run(
        RebalancePolicy(strategy=RebalanceStrategy.NONE), (shard("a"), shard("b")), STORY
    )

    assert (outcome.moves, outcome.before, outcome.after) == ((), {}, {})
    assert outcome.why == "rebalancing is off: spec.rebalance.strategy is None"


@pytest.mark.parametrize("names", ["", "a"])
def test_a_single_shard_is_not_rebalanced(names: str) -> None:
    outcome = run(balance(), [shard(name) for name in names], LOPSIDED)

    assert outcome.why == "rebalancing needs at least two available shards"


def test_a_shard_that_joins_gets_its_share_of_the_objects() -> None:
    objects = [*many("a", 3), *many("b", 3), *many("c", 3)]

    outcome = run(even(), [plain(name) for name in "abcd"], objects)

    assert outcome.after == {A: 2, B: 2, C: 3, D: 2}
    assert outcome.threshold is None
    assert outcome.why == ("2 moves: the number of objects by weight is 2 to 3 instead of 0 to 3")


def test_shards_get_objects_by_their_weight() -> None:
    outcome = run(even(), (plain("a"), plain("b", weight=3.0)), many("a", 8))

    assert outcome.after == {A: 2, B: 2}


def test_without_capacity_everywhere_the_number_of_objects_counts() -> None:
    objects = [obj("x", "a", 90, 90), *many("b", 2)]

    outcome = run(even(), (shard("a"), plain("b"), plain("c")), objects)

    assert [move.source for move in outcome.moves] == [B]


def test_the_fullest_shard_by_rate_gives_to_the_least_full() -> None:
    objects = [obj(str(n), "a", 10, 1) for n in range(6)] + [obj("x", "b", 0, 30)]

    outcome = run(even(), [shard(name) for name in "abc"], objects)

    assert [move.target for move in outcome.moves] == [C, C, C]
    assert outcome.after == {name: pytest.approx(0.3) for name in (A, B, C)}


def test_moves_that_gain_too_little_together_are_not_made() -> None:
    objects = [obj("x", "a", 2, 0), obj("z", "a", 4, 0), obj("y", "a", 47, 0, kept="is pinned")]
    shards = (shard("a"), shard("b"))

    assert run(balance(0.15, min_gain=0.04), shards, objects).moves == ()
    assert moved(run(balance(0.15, min_gain=0.03), shards, objects)) == {"x": "b", "z": "b"}
    continued = run(balance(0.15, min_gain=0.04), shards, objects, begun=frozenset({A}))
    assert moved(continued) == {"x": "b", "z": "b"}


def test_what_the_budget_has_ended_is_not_judged_by_its_gain() -> None:
    objects = [obj(str(number), "a", 1, 0) for number in range(40)]

    outcome = run(balance(0.15), (shard("a"), shard("b", 1e12, 1e12)), objects, budget=3)

    assert len(outcome.moves) == 3


def test_an_object_moves_once_though_its_shard_stays_uneven() -> None:
    # Of three equal objects the one in the middle may go, after which a is still uneven.
    objects = [obj(str(number), "a", 20, 0) for number in range(3)]
    near = [obj(f"n{index}", "b", 1, 0) for index in range(32)]
    shards = (shard("a"), shard("b"), shard("c", 1e12, 1e12))

    outcome = run(
        balance(0.15), shards, [*objects, *near], admits=lambda key, _: key not in {"0", "2"}
    )

    assert [move.key for move in outcome.moves] == ["1"]


def test_a_group_is_never_less_spread_than_before() -> None:
    objects = [replace(found, groups=(7,)) for found in many("a", 4)]

    outcome = run(even(), (plain("a"), plain("b", weight=3.0)), objects)

    assert outcome.after == {A: 2.0, B: 2 / 3}


def test_a_move_that_another_one_makes_useful_is_found() -> None:
    objects = [
        obj("x", "a", 30, 0),
        obj("y", "a", 30, 0, kept="is pinned"),
        obj("z", "b", 25, 0),
        obj("w", "b", 25, 0, kept="is pinned"),
    ]
    shards = [shard(name) for name in "abc"]

    outcome = run(even(), shards, objects, admits=lambda key, target: (key, target) != ("x", C))

    assert [(move.key, move.target) for move in outcome.moves] == [("z", C), ("x", B)]

"""Facts about `sharder.core.rebalance.run`: what moves, where to, and in which order."""

import pytest

from sharder.core.api.ring import RebalanceSpec, RebalanceStrategy
from sharder.core.names import ShardName
from sharder.core.rebalance.equal_objects import ended
from sharder.core.rebalance.loads import LoadedObject, LoadedShard
from sharder.core.rebalance.measures import TOLERANCE
from sharder.core.rebalance.policy import RebalancePolicy, policy_of
from sharder.core.rebalance.run import rebalancing
from tests.support.values_rebalance import (
    A,
    B,
    C,
    D,
    admits_all,
    after,
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


def test_two_shards_that_are_equally_bad_are_balanced_by_a_number() -> None:
    outcome = run(balance(0.15), (shard("a"), shard("b")), STORY)

    assert outcome.threshold == 0.15
    assert moved(outcome) == {"x": "b"}
    assert max(outcome.after.values()) <= 0.15


def test_auto_finds_the_shard_that_stands_out() -> None:
    shards = [shard(name) for name in "abcd"]

    outcome = run(balance(None), shards, LOPSIDED)

    assert outcome.threshold == pytest.approx(0.075 + 0.1299038)
    assert outcome.moves[0].source == A


def test_a_shard_is_left_alone_once_it_is_not_above_the_threshold() -> None:
    objects = [obj(str(number), "a", 10, 0) for number in range(8)]

    outcome = run(balance(0.2), (shard("a"), shard("b")), objects)

    assert outcome.after == {A: pytest.approx(0.2), B: pytest.approx(0.2)}
    steps = [(round(move.before, 9), round(move.after, 9)) for move in outcome.moves]
    assert steps == [(0.4, 0.35), (0.35, 0.3), (0.3, 0.25), (0.25, 0.2)]


def test_each_move_is_judged_by_where_those_before_it_have_led() -> None:
    # The proposal's list would go on to evict "a", which brings the shard from 0.025 to 0.2.
    objects = (obj("a", "a", 50, 5, rank=1), obj("b", "a", 50, 30), obj("c", "a", 0, 40, rank=1))

    outcome = run(balance(0.0, min_gain=0.0), (shard("a"), shard("b", 1e12, 1e12)), objects)

    assert moved(outcome) == {"b": "b"}
    assert outcome.after[A] == pytest.approx(0.025)


def test_the_worst_shard_comes_first() -> None:
    objects = [obj("x", "a", 40, 0), obj("y", "b", 60, 0)]

    outcome = run(balance(0.0), (*(shard(n) for n in "ab"), shard("c", 1e12, 1e12)), objects)

    assert [move.key for move in outcome.moves] == ["y", "x"]


def test_a_shard_that_cannot_give_anything_up_does_not_keep_the_next_one_waiting() -> None:
    objects = [obj("x", "a", 40, 0), obj("y", "b", 60, 0, kept="is pinned")]

    outcome = run(balance(0.1), (*(shard(n) for n in "ab"), shard("c", 1e12, 1e12)), objects)

    assert moved(outcome) == {"x": "c"}


def test_a_shard_is_asked_again_once_another_has_changed() -> None:
    # The worst shard's object fits in only once the other shard has made room.
    objects = [
        obj("x", "a", 50, 10),
        obj("z", "a", 40, 40, kept="is pinned"),
        obj("y", "b", 30, 0),
        obj("p", "b", 20, 0, kept="is pinned"),
    ]
    shards = (shard("a"), shard("b"), shard("c", 1e12, 1e12))
    allowed = {("x", C), ("y", A)}

    outcome = run(balance(0.15), shards, objects, admits=lambda k, t: (k, t) in allowed)

    assert [(move.key, move.target) for move in outcome.moves] == [("x", C), ("y", A)]


def test_a_shard_is_asked_again_once_it_has_got_something_itself() -> None:
    # "y" brings load of a resource that "r" uses as well: only then it helps to give "r" up.
    objects = [
        obj("r", "a", 0, 5),
        obj("p", "a", 50, 0, kept="is pinned"),
        obj("y", "b", 0, 85),
        obj("q", "b", 41, 0, kept="is pinned"),
    ]
    shards = (shard("a"), shard("b"), shard("c", 1e12, 1e12))
    allowed = {("r", C), ("y", A)}

    outcome = run(
        balance(0.15, min_gain=0.01), shards, objects, admits=lambda k, t: (k, t) in allowed
    )

    assert [(move.key, move.target) for move in outcome.moves] == [("y", A), ("r", C)]


def test_a_shard_is_asked_again_once_a_target_has_got_what_it_lacked() -> None:
    objects = [
        obj("x", "a", 50, 0),
        obj("y", "b", 0, 20),
        obj("p", "b", 0, 20, kept="is pinned"),
    ]
    shards = [shard(name) for name in "abc"]

    outcome = run(balance(0.15), shards, objects, admits=lambda _, target: target == C)

    assert [move.key for move in outcome.moves] == ["y", "x"]


def test_the_target_is_the_shard_that_ends_best() -> None:
    objects = [*LOPSIDED, obj("p", "b", 0, 10), obj("q", "c", 0, 40)]

    outcome = run(balance(0.15), [shard(name) for name in "abc"], objects)

    assert moved(outcome) == {"big": "c"}


def test_of_targets_that_end_alike_the_one_with_fewer_objects_is_taken_then_by_name() -> None:
    objects = [*LOPSIDED, obj("p", "b", 10, 10), obj("q", "c", 5, 5), obj("r", "c", 5, 5)]
    shards = [shard(name, 1e12, 1e12) for name in "bcd"]

    assert moved(run(balance(0.15), (shard("a"), *shards), objects)) == {"big": "d"}
    assert moved(run(balance(0.15), (shard("a"), *shards[:2]), objects)) == {"big": "b"}


def test_no_move_lifts_a_target_above_the_threshold() -> None:
    objects = [obj("x", "a", 80, 0), obj("y", "a", 20, 20)]

    assert run(balance(0.15), (shard("a"), shard("b")), objects).moves == ()


def test_a_target_above_the_threshold_may_become_better() -> None:
    objects = [obj("x", "a", 40, 0), obj("p", "b", 0, 80, kept="is pinned")]

    outcome = run(balance(0.1), (shard("a"), shard("b")), objects)

    assert moved(outcome) == {"x": "b"}
    assert outcome.after[B] == pytest.approx(0.2)


def test_a_target_has_room_in_every_resource_that_the_object_loads() -> None:
    objects = [obj("x", "a", 50, 0), obj("y", "a", 10, 10), obj("p", "b", 60, 80)]

    assert run(balance(0.15), (shard("a"), shard("b")), objects).moves == ()
    assert moved(run(balance(0.15), (shard("a"), shard("b", 110)), objects)) == {"x": "b"}


def test_a_target_has_room_for_what_fills_it_exactly() -> None:
    # 0.1 + 0.2 is more than 0.3.
    objects = [obj("x", "a", 0.2, 0), obj("p", "b", 0.1, 0.3, kept="is pinned")]

    outcome = run(balance(0.1), (shard("a", 0.5, 0.5), shard("b", 0.3, 0.3)), objects)

    assert moved(outcome) == {"x": "b"}


def test_resources_that_are_not_balanced_need_room_as_well() -> None:
    disk = LoadedObject("x", A, {"cpu": 50.0, "disk": 5.0, "objects": 1.0}, (0,))
    full = shard("b", 1e12, 1e12)
    small = type(full)(name=B, capacity={**full.capacity, "disk": 4.0})

    assert run(balance(0.1), (shard("a"), small), [disk]).moves == ()
    assert moved(run(balance(0.1), (shard("a"), full), [disk])) == {"x": "b"}


def test_a_declared_number_of_objects_is_kept() -> None:
    objects = many("a", 9)
    small = LoadedShard(name=B, capacity={"objects": 2.0})

    assert run(even(), (plain("a"), small), objects).after == {A: 7, B: 2}


@pytest.mark.parametrize(("room", "targets"), [(0, 0), (1, 1), (-1, 0), (None, 4)])
def test_ceilings_are_kept(room: int | None, targets: int) -> None:
    objects = [obj(str(number), "a", 10, 0) for number in range(8)]

    outcome = run(balance(0.2), (shard("a"), shard("b", room=room)), objects)

    assert len(outcome.moves) == targets


def test_a_shard_that_gives_an_object_up_has_room_for_another() -> None:
    objects = [
        obj("x", "a", 60, 0),
        obj("z", "a", 30, 0, kept="is pinned"),
        obj("y", "b", 0, 30),
        obj("p", "b", 0, 10, kept="is pinned"),
    ]
    shards = (shard("a", room=0), shard("b", room=0), shard("c", 1e12, 1e12, room=1))

    outcome = run(balance(0.1), shards, objects)

    assert [(move.key, move.target) for move in outcome.moves] == [("x", C), ("y", A)]


def test_a_shard_that_is_not_open_gives_up_and_does_not_get() -> None:
    closed = shard("b", 1e12, 1e12, open=False)

    assert run(balance(0.15), (shard("a"), closed), LOPSIDED).moves == ()
    outcome = run(balance(0.15), (shard("a", open=False), shard("b", 1e12, 1e12)), LOPSIDED)
    assert moved(outcome) == {"big": "b"}


def test_objects_go_only_where_they_may_be() -> None:
    shards = (shard("a"), shard("b", 1e12, 1e12), shard("c", 1e12, 1e12))

    outcome = run(balance(0.15), shards, LOPSIDED, admits=lambda _, target: target == C)

    assert moved(outcome) == {"big": "c"}


def test_whether_an_object_may_be_somewhere_is_asked_once() -> None:
    asked: list[tuple[str, ShardName]] = []

    def admits(key: str, target: ShardName) -> bool:
        asked.append((key, target))
        return key in {"3", "7"}

    objects = [obj(str(number), "a", 10, 0) for number in range(9)]
    outcome = run(balance(0.0), (shard("a"), shard("b", 1e12, 1e12)), objects, admits=admits)

    assert moved(outcome) == {"3": "b", "7": "b"}
    assert len(asked) == len(set(asked)) == 9


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


def test_what_must_stay_stays() -> None:
    objects = [obj("big", "a", 50, 0, kept="is pinned"), *LOPSIDED[1:]]

    outcome = run(balance(0.15), (shard("a"), shard("b", 1e12, 1e12)), objects)

    assert "big" not in moved(outcome)


def test_an_object_without_load_is_not_moved() -> None:
    objects = [obj("idle", "a"), obj("x", "a", 50, 0, kept="is pinned")]

    outcome = run(balance(0.1, min_gain=0.0), (shard("a"), shard("b")), objects)

    assert outcome.moves == ()


def test_the_budget_ends_a_run() -> None:
    objects = [obj(str(number), "a", 10, 0) for number in range(8)]

    outcome = run(balance(0.2), (shard("a"), shard("b")), objects, budget=2)

    assert len(outcome.moves) == 2
    assert outcome.why == (
        "the budget of 2 moves is spent: the highest fragmentation goes from 0.4 to 0.3"
    )


def test_objects_of_other_shards_do_not_count() -> None:
    outcome = run(balance(), (shard("a"), shard("b")), [obj("x", "gone", 90, 0)])

    assert outcome.before == {A: 0, B: 0}


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


def test_a_difference_of_one_object_is_even() -> None:
    outcome = run(even(), (plain("a"), plain("b")), many("a", 1))

    assert outcome.moves == ()


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


def test_nothing_moves_between_shards_that_hardly_differ() -> None:
    objects = [obj("x", "a", 3, 0), obj("y", "a", 47, 0, kept="is pinned"), obj("z", "b", 45, 0)]
    shards = (shard("a"), shard("b"))

    assert run(even(min_gain=0.06), shards, objects).moves == ()
    assert moved(run(even(min_gain=0.05), shards, objects)) == {"x": "b"}


def test_many_shards_each_give_a_little_to_one_that_joins() -> None:
    names = [f"s{number}" for number in range(30)]
    objects = [obj(f"{name}/{index}", name, 1, 1) for name in names for index in range(50)]

    outcome = run(even(), [shard(name) for name in [*names, "new"]], objects)

    assert outcome.after[ShardName("new")] > 0.45
    assert max(outcome.after.values()) <= 0.5


def test_moves_that_gain_too_little_together_are_not_made() -> None:
    objects = [obj("x", "a", 2, 0), obj("z", "a", 4, 0), obj("y", "a", 47, 0, kept="is pinned")]
    shards = (shard("a"), shard("b"))

    assert run(balance(0.15, min_gain=0.04), shards, objects).moves == ()
    assert moved(run(balance(0.15, min_gain=0.03), shards, objects)) == {"x": "b", "z": "b"}


@pytest.mark.parametrize("each", [1, 25], ids=["many small objects", "few large ones"])
def test_uneven_shards_come_below_the_threshold_by_default(each: int) -> None:
    # Rates of 0.7 and 0.3, 0.3 and 0.7, 0.5 and 0.5 twice; 50 objects on each shard, or 2.
    loads = {"a": (70, 30), "b": (30, 70), "c": (50, 50), "d": (50, 50)}
    number = 50 // each
    objects = [
        obj(f"{name}{index}", name, cpu / number, memory / number)
        for name, (cpu, memory) in loads.items()
        for index in range(number)
    ]
    shards = [shard(name) for name in "abcd"]
    policy = policy_of(
        RebalanceSpec(strategy=RebalanceStrategy.RESOURCE_BALANCE, threshold="0.15")
    )

    outcome = run(policy, shards, objects, budget=RebalanceSpec().max_moves_per_interval)

    assert sorted(outcome.before.values()) == pytest.approx([0, 0, 0.2, 0.2])
    assert outcome.moves
    assert max(outcome.after.values()) <= 0.15 + TOLERANCE
    assert run(policy, shards, after(objects, outcome.moves)).moves == ()


def test_a_shard_that_would_gain_too_little_does_not_keep_others_from_gaining() -> None:
    # Each of the two has small objects; one is far above the threshold.
    far = [obj(f"f{index}", "a", 1, 0) for index in range(40)]
    near = [obj(f"n{index}", "b", 1, 0) for index in range(32)]
    shards = (shard("a"), shard("b"), shard("c", 1e12, 1e12))

    outcome = run(balance(0.15), shards, [*far, *near])

    assert {move.source for move in outcome.moves} == {A}
    assert outcome.after == {
        A: pytest.approx(0.15),
        B: pytest.approx(0.16),
        C: pytest.approx(0, abs=1e-9),
    }


def test_shards_that_would_gain_too_little_one_after_the_other_are_left_as_they_were() -> None:
    # Only once a, the worse one, is left out does b come to the one place there is.
    objects = [
        *(obj(f"a{index}", "a", 1, 0) for index in range(32)),
        *(obj(f"b{index}", "b", 1, 0) for index in range(31)),
    ]
    shards = (shard("a"), shard("b"), shard("c", 1e12, 1e12, room=1))

    outcome = run(balance(0.15), shards, objects, admits=lambda _, target: target == C)

    assert outcome.moves == ()
    assert outcome.after == outcome.before


def test_what_the_budget_has_ended_is_not_judged_by_its_gain() -> None:
    objects = [obj(str(number), "a", 1, 0) for number in range(40)]

    outcome = run(balance(0.15), (shard("a"), shard("b", 1e12, 1e12)), objects, budget=3)

    assert len(outcome.moves) == 3


def test_what_the_look_before_has_begun_is_brought_to_its_end() -> None:
    objects = [obj(str(number), "a", 1, 0) for number in range(31)]
    shards = (shard("a"), shard("b", 1e12, 1e12))

    going_on = ended(
        rebalancing(
            balance(0.15), shards, objects, budget=3, admits=admits_all, begun=frozenset({A})
        )
    )

    assert run(balance(0.15), shards, objects, budget=3).moves == ()
    assert len(going_on.moves) == 1


def test_the_search_anew_finds_what_the_first_has_found_and_moves_it_once() -> None:
    # Of three equal objects the one in the middle may go, after which a is still uneven.
    objects = [obj(str(number), "a", 20, 0) for number in range(3)]
    near = [obj(f"n{index}", "b", 1, 0) for index in range(32)]
    shards = (shard("a"), shard("b"), shard("c", 1e12, 1e12))

    outcome = run(
        balance(0.15), shards, [*objects, *near], admits=lambda key, _: key not in {"0", "2"}
    )

    assert [move.key for move in outcome.moves] == ["1"]


def test_the_gain_of_a_shard_is_that_of_all_its_moves() -> None:
    # a gives "t" up only after b, which is asked again, has made room; that alone is too little.
    objects = [
        obj("small", "b", 0, 2),
        obj("big", "b", 0, 20, rank=1),
        obj("p", "b", 0, 48, kept="is pinned"),
        obj("x", "a", 29, 0),
        obj("t", "a", 1, 0),
        obj("q", "a", 39, 0, kept="is pinned"),
    ]
    huge = (shard(name, 1e12, 1e12, room=1) for name in "cd")
    allowed = {"small": {C}, "big": {C, D}, "x": {C, D}, "t": {B}}

    outcome = run(
        balance(0.15),
        [shard("a"), shard("b", room=0), *huge],
        objects,
        admits=lambda key, target: target in allowed[key],
    )

    assert moved(outcome) == {"x": "c", "big": "d", "t": "b"}


def _one_after_the_other() -> tuple[list[LoadedShard], list[LoadedObject]]:
    """Return what needs two searches: "small" takes the place where "x" goes in the second."""
    objects = [
        obj("small", "b", 2, 0),
        obj("big", "b", 20, 0, rank=1),
        obj("p", "b", 38, 0, kept="is pinned"),
        obj("x", "a", 29, 0),
        obj("q", "a", 30, 0, kept="is pinned"),
    ]
    return [shard("a"), shard("b"), *(shard(n, 1e12, 1e12, room=1) for n in "cd")], objects


def _small_goes_to_c_alone(key: str, target: ShardName) -> bool:
    return (key, target) != ("small", D)


def test_a_shard_that_would_gain_too_little_is_asked_again_once_others_have_moved() -> None:
    shards, objects = _one_after_the_other()

    outcome = run(balance(0.15), shards, objects, admits=_small_goes_to_c_alone)

    assert moved(outcome) == {"x": "c", "big": "d"}


def test_all_searches_together_have_one_budget() -> None:
    # The first search leads "2" to b; only after that "4" has somewhere to go.
    objects = [
        obj("0", "c", 1, 0),
        obj("1", "a", 1, 0),
        obj("2", "a", 30, 0),
        obj("3", "c", 2, 0),
        obj("4", "c", 29, 0),
    ]
    shards = [shard("a"), shard("b", 1e12, 1e12, room=1), shard("c")]
    refused = {("4", B), ("2", C), ("0", B), ("3", C)}

    def moves(budget: int) -> object:
        look = run(
            balance(0.15),
            shards,
            objects,
            budget=budget,
            admits=lambda k, t: (k, t) not in refused,
        )
        return moved(look)

    assert moves(2) == {"2": "b", "4": "a"}
    assert moves(1) == {"2": "b"}


def test_a_shard_that_is_asked_again_is_not_left_out_for_the_sake_of_another() -> None:
    # Those of e gain too little in every search.
    shards, objects = _one_after_the_other()
    shards += [shard("e"), shard("f", 1e12, 1e12)]
    objects += [obj(f"e{index}", "e", 1, 0) for index in range(32)]

    outcome = run(
        balance(0.15),
        shards,
        objects,
        admits=lambda key, target: (
            target == "f"
            if key.startswith("e")
            else target != "f" and _small_goes_to_c_alone(key, target)
        ),
    )

    assert moved(outcome) == {"x": "c", "big": "d"}


def test_what_was_moved_is_balanced() -> None:
    objects = [*many("a", 7), *many("b", 1)]
    shards = [plain(name) for name in "abc"]

    outcome = run(even(), shards, objects)

    assert run(even(), shards, after(objects, outcome.moves)).moves == ()

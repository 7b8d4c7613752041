"""Facts about estimates from counts: what one shard more or less would move."""

from collections.abc import Mapping

import pytest

from sharder.core.api.ring import PlacementSpec
from sharder.core.names import ShardName
from sharder.core.placement.counting.counts import NO_COUNTS
from sharder.core.placement.placer import Placer
from sharder.core.placement.strategy import Layout
from sharder.core.preview.estimate import Estimate, estimates
from tests.support.values import A, B, C, D
from tests.support.values_placement import (
    BOUNDED,
    CONSISTENT,
    RENDEZVOUS,
    bounded,
    demand,
    layout,
    shard,
    tally,
)

ABOUT = 0.15
"""How far hashing 1,000 keys can be from the average."""


def estimated(of: Layout, held: Mapping[ShardName, int]) -> tuple[Estimate, ...]:
    placer = Placer(of)
    counts = tally(dict[ShardName | None, int](held.items())) if placer.sticks else NO_COUNTS
    return estimates(placer, counts, held)


def owners(of: Layout) -> dict[str, ShardName | None]:
    placer = Placer(of)
    keys = (f"/Secret/default/secret-{number}" for number in range(1000))
    return {key: placer.place(demand(key), NO_COUNTS).shard for key in keys}


@pytest.mark.parametrize("spec", [CONSISTENT, RENDEZVOUS])
def test_a_strategy_that_follows_moves_about_as_many_as_estimated(spec: PlacementSpec) -> None:
    three = layout(shard(A), shard(B), shard(C), spec=spec)
    before, with_four = owners(three), owners(layout(*three.shards, shard(D), spec=spec))
    held = {name: [*before.values()].count(name) for name in (A, B, C)}

    joined, left = estimated(three, held)

    moved = sum(with_four[key] != owner for key, owner in before.items())
    assert joined.without is None
    assert joined.moves == pytest.approx(moved, abs=1000 * ABOUT)
    assert left.without is not None
    assert (left.moves, left.waiting) == (max(held.values()), 0)
    rest = owners(layout(*(s for s in three.shards if s.name != left.without), spec=spec))
    assert sum(rest[key] != owner for key, owner in before.items()) == left.moves


def test_with_automatic_ceilings_what_exceeds_them_moves_to_a_new_shard() -> None:
    joined, _ = estimated(layout(shard(A), shard(B), spec=BOUNDED), {A: 30, B: 30})

    assert joined == Estimate(without=None, moves=20)


def test_a_strategy_that_sticks_moves_nothing_to_a_new_shard_within_its_ceilings() -> None:
    shards = (shard(A, room=50), shard(B, room=50))

    joined, left = estimated(layout(*shards, spec=bounded(per_shard=40)), {A: 30, B: 20})

    assert joined == Estimate(without=None, moves=0)
    assert left == Estimate(without=A, moves=20, waiting=10)


def test_what_exceeds_a_ceiling_already_does_not_count_for_the_new_shard() -> None:
    spec = bounded(per_shard=10)

    joined, _ = estimated(layout(shard(A), shard(B), spec=spec), {A: 14, B: 2})

    assert joined.moves == 0


def test_shards_without_a_ceiling_have_room_for_all() -> None:
    spec = bounded(per_pool=10)

    _, left = estimated(layout(shard(A), shard(B), spec=spec), {A: 3, B: 2})

    assert left == Estimate(without=A, moves=3)


def test_a_new_shard_is_like_the_others_as_far_as_they_agree() -> None:
    alike = layout(shard(A, weight=2), shard(B, weight=2))
    different = layout(shard(A, weight=3), shard(B, weight=2, pool="p", room=99))

    assert estimated(alike, {A: 30, B: 30})[0].moves == 20
    assert estimated(different, {A: 36, B: 24})[0].moves == 10


def test_without_the_last_shard_that_gets_objects_all_would_wait() -> None:
    of = layout(shard(A), shard(B, cordoned=True), spec=RENDEZVOUS)

    joined, left = estimated(of, {A: 4, B: 6})

    assert joined.moves == 2
    assert left == Estimate(without=A, moves=0, waiting=4)


@pytest.mark.parametrize(
    ("of", "held"),
    [
        (layout(shard(A), shard(B)), {A: 0}),
        (layout(shard(A, evacuating=True)), {A: 3}),
        (layout(shard(A, revision="1"), shard(B, revision="2")), {A: 3}),
    ],
    ids=["no objects", "no shard that gets some", "a rollout"],
)
def test_there_is_no_estimate_without_anything_to_move(
    of: Layout, held: Mapping[ShardName, int]
) -> None:
    assert estimated(of, held) == ()

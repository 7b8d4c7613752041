"""Facts about `sharder.core.placement.strategies.rendezvous`: the automatic ceiling."""

import pytest

from sharder.core.placement.counting.counts import NO_COUNTS
from sharder.core.placement.ranking import WeightedRendezvous
from sharder.core.placement.strategies.rendezvous import BoundedLoad
from tests.support.values import A, B, C
from tests.support.values_placement import bounded, demand, layout, placer, shard, tally


def share(objects: int, *weights: float) -> list[int | None]:
    shards = [shard(f"s-{number}", weight=weight) for number, weight in enumerate(weights)]
    of = layout(*shards)
    return [BoundedLoad(of).share(found.weight, objects, of.weight) for found in shards]


def test_equal_shards_may_have_the_mean_rounded_up() -> None:
    assert share(10, 1, 1, 1) == [4, 4, 4]
    assert share(9, 1, 1, 1) == [3, 3, 3]


def test_a_shard_of_twice_the_weight_may_have_twice_as_many() -> None:
    assert share(10, 1, 1, 2) == [3, 3, 5]


def test_without_objects_every_ceiling_is_zero() -> None:
    assert share(0, 1, 1) == [0, 0]


@pytest.mark.parametrize("weight", [0.1, 0.7, 1.1, 3.3, 123.4])
@pytest.mark.parametrize("shards", [3, 7, 10, 49])
def test_a_share_without_remainder_is_not_rounded_up(weight: float, shards: int) -> None:
    assert share(100 * shards, *[weight] * shards) == [100] * shards


def test_a_ceiling_of_the_ring_takes_the_place_of_the_automatic_one() -> None:
    of = layout(shard(A), spec=bounded(per_shard=5))

    assert BoundedLoad(of).share(1.0, 1000, of.weight) is None


def test_an_object_goes_to_the_shard_that_its_key_is_drawn_to_most_of_those_with_room() -> None:
    shards = [shard(name) for name in (A, B, C)]
    first = WeightedRendezvous().best("key", shards)
    rest = [found for found in shards if found != first]
    second = WeightedRendezvous().best("key", rest)

    chosen = placer(*shards).place(demand("key"), tally({first.name: 2}))

    assert chosen.shard == second.name


def test_the_remarks_are_the_scores() -> None:
    shards = [shard(name) for name in (A, B)]
    scores = [WeightedRendezvous().score("key", found) for found in shards]

    remarks = BoundedLoad(layout(*shards)).remarks(demand("key"), shards, NO_COUNTS)

    assert remarks == {A: f"score {scores[0]:.4g}", B: f"score {scores[1]:.4g}"}

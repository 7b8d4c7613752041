"""Facts about `sharder.core.placement.ranking`: a whole ring, placed at one moment."""

from itertools import pairwise

from sharder.core.names import ShardName
from sharder.core.placement.demand import identity_of
from tests.support.simulated import Distribution, Placed, distribute
from tests.support.values import A, B, C
from tests.support.values_placement import demand, placer, shard


def owners(distribution: Distribution, *keys: str) -> list[ShardName | None]:
    return [distribution.choices[identity_of(key)].shard for key in keys]


def test_pins_follow_each_other_where_one_makes_room_for_the_next() -> None:
    full = [shard(name, room=1) for name in (A, B, C)]
    objects = [Placed(demand("x", on=A, pin=B)), Placed(demand("y", on=B, pin=C))]

    assert owners(distribute(objects, placer(*full)), "x", "y") == [B, C]


def test_a_plan_of_a_very_long_chain_of_pins_ends_before_all_objects_have_moved() -> None:
    names = [ShardName(f"shard-{number:03}") for number in range(103)]
    pins = [(f"x-{n:03}", *pair) for n, pair in enumerate(pairwise(names))]
    objects = [Placed(demand(key, on=at, pin=to)) for key, at, to in pins]

    found = distribute(objects, placer(*(shard(name, room=1) for name in names)))

    assert owners(found, "x-000", "x-101") == [names[0], names[102]]


# Shards that are evacuated, and movement that is paused

"""Facts of `sharder.core.placement.strategies.least_loaded`."""

import pytest

from sharder.core.placement.strategy import Choice
from tests.support.values_placement import shard
from tests.vectors.gear_scene import DISTRICT, Scene, spec_of

SIX = {f"{zone}-{number}": zone for zone in "abc" for number in (1, 2)}


def left(scene: Scene) -> list[str]:
    """Return which shards are left for a new object of the group, the fullest first."""
    *_, last = scene.narrow().values()
    return [found.name for found in last.kept]


# Groups, regions and zones


def test_a_group_with_more_members_than_shards_leaves_the_surplus_without() -> None:
    scene = Scene(spec_of(pool_capacity=None, restricted=True))
    for name, zone in SIX.items():
        scene.add(shard(name, zone=zone, region="r"), 0)

    choices = [scene.place() for _ in range(8)]

    assert {choice.shard for choice in choices[:6]} == SIX.keys()
    every = "every shard that can take the object (6) holds a member of its group"
    assert choices[6:] == [Choice(None, f"antiAffinity Required: {every}")] * 2
    remarks = scene.remarks().values()
    assert {remark.rpartition("; ")[2] for remark in remarks} == {
        f"dropped by antiAffinity: antiAffinity Required: {every}"
    }


def test_a_group_that_is_on_every_shard_goes_where_it_has_the_fewest_members() -> None:
    scene = Scene(spec_of(pool_capacity=None))
    scene.add(shard("a"), 2, members=2)
    scene.add(shard("b"), 1, members=1)

    assert left(scene) == ["b"]


def test_zones_that_a_group_uses_already_are_zones_that_it_may_use() -> None:
    scene = Scene(spec_of(pool_capacity=None, min_zones=2))
    scene.add(shard("a", zone="z1"), 0)
    scene.add(shard("lost", zone="z2"), 1, members=1, offered=False)

    assert scene.place().shard == "a"


def test_zones_of_one_name_in_two_regions_are_two() -> None:
    scene = Scene(spec_of(pool_capacity=None, min_zones=3))
    for region in ("r1", "r2"):
        scene.add(shard(f"in-{region}", zone="z1", region=region), 1, members=1)

    assert scene.place().reason == "the group can use 2 zones, minZones is 3"


def test_mean_loads_are_compared_exactly() -> None:
    scene = Scene(spec_of(pool_capacity=None))
    scene.add(shard("home", zone="z0"), 1, members=1)
    for name, zone, held, room in (
        ("a", 1, 1, 3),
        ("b", 1, 2, 6),
        ("c", 2, 1, 4),
        ("d", 2, 5, 12),
    ):
        scene.add(shard(name, zone=f"z{zone}", room=room), held)

    assert sorted(left(scene)) == ["a", "b", "c", "d"]


# Load and pools


@pytest.mark.parametrize(
    ("room", "kept"),
    [
        ((50, 5000), "8654321 0"),
        ((50, 2000), "8654321 0"),
        ((3000, 5000), "987654321 0"),
        ((5000, 5000), "987654321 0"),
    ],
)
def test_of_pools_that_are_more_than_half_full_a_fifth_is_dropped_where_room_is_least(
    room: tuple[int, int], kept: str
) -> None:
    scene = Scene(spec_of())
    for index in range(10):
        pool = ("even", "odd")[index % 2]
        scene.add(shard(str(index), pool=pool, room=1000), 100 + index)
    for pool, free in zip(("odd", "even"), room, strict=True):
        held = sum(scene.tally.on(found.name) for found in scene.layout.pools[pool])
        scene.add(shard(pool, pool=pool), DISTRICT - free - held, offered=False)

    assert left(scene) == [*kept.replace(" ", "")]


# Explanations


def test_every_candidate_is_reported_with_which_cut_it_was_dropped() -> None:
    scene = Scene(spec_of(pool_capacity=None, restricted=True))
    scene.add(shard("home", zone="z1", region="r"), 2, members=1)
    for name, zone, held in (("near", "z1", 1), ("far", "z2", 5), ("high", "z3", 40)):
        scene.add(shard(name, zone=zone, region="r"), held)
    scene.add(shard("abroad", zone="z1", region="r2"), 0)
    scene.add(shard("nowhere", region="r"), 0)

    assert scene.remarks() == {
        "home": "active load 5 %, 1 of its group here, 1 in its zone; dropped by antiAffinity: "
        "it holds a member of the group",
        "near": "active load 2.5 %, 0 of its group here, 1 in its zone; dropped by members in "
        "zone: another zone has fewer of the group",
        "far": "active load 12.5 %, 0 of its group here, 0 in its zone; in the draw with a weight "
        "of 1 of 1",
        "high": "active load 100 %, 0 of its group here, 0 in its zone; dropped by load of zone: "
        "the mean load of another zone is lower",
        "abroad": "active load 0 %, 0 of its group here, 0 in its zone; dropped by region: the "
        "group is in the region r",
        "nowhere": "active load 0 %, 0 of its group here, it has no zone; dropped by zoned: it "
        "has no zone, others have",
    }

"""Facts of `sharder.core.placement.strategies.least_loaded`."""

import pytest

from sharder.core.placement.strategy import Choice
from tests.support.least_loaded_ring import SIX, WEB, Ring, demand, ring, shard, spec

# Groups, regions and zones


def test_a_group_with_more_members_than_shards_leaves_the_surplus_without() -> None:
    scene = Ring(SIX, spec(required=True))

    choices = [scene.create(WEB) for _ in range(8)]

    assert {choice.shard for choice in choices[:6]} == {shard.name for shard in SIX}
    every = "every shard that can take the object (6) holds a member of its group"
    assert choices[6:] == [Choice(None, f"antiAffinity Required: {every}")] * 2
    remarks = scene.placer.explain(demand(group=WEB), scene.tally).remarks.values()
    assert {remark.rpartition("; ")[2] for remark in remarks} == {
        f"dropped by antiAffinity: antiAffinity Required: {every}"
    }


def test_a_group_that_is_on_every_shard_goes_where_it_has_the_fewest_members() -> None:
    crowded, other = shard("a"), shard("b")
    scene = Ring([crowded, other])
    scene.put(crowded, 2, group=WEB)
    scene.put(other, 1, group=WEB)

    assert scene.left(WEB) == ["b"]


def test_zones_that_a_group_uses_already_are_zones_that_it_may_use() -> None:
    lost = shard("lost", "z2")
    scene = Ring([shard("a", "z1")], spec(min_zones=2), lost=[lost])
    scene.put(lost, 1, group=WEB)

    assert scene.place(WEB).shard == "a"


def test_zones_of_one_name_in_two_regions_are_two() -> None:
    one, two = shard("one", "z1", region="r1"), shard("two", "z1", region="r2")
    scene = Ring([one, two], spec(min_zones=3))
    scene.put(one, 1, group=WEB)
    scene.put(two, 1, group=WEB)

    assert scene.place(WEB).reason == "the group can use 2 zones, minZones is 3"


def test_mean_loads_are_compared_exactly() -> None:
    home = shard("home", "z0")
    third, sixth = shard("a", "z1", room=3), shard("b", "z1", room=6)
    half, other = shard("c", "z2", room=4), shard("d", "z2", room=12)
    scene = ring({third: 1, sixth: 2, half: 1, other: 5, home: 0})
    scene.put(home, 1, group=WEB)

    assert sorted(scene.left(WEB)) == ["a", "b", "c", "d"]


# Load and pools


@pytest.mark.parametrize(
    ("room", "left"),
    [
        ((50, 5000), "8654321 0"),
        ((50, 2000), "8654321 0"),
        ((3000, 5000), "987654321 0"),
        ((5000, 5000), "987654321 0"),
    ],
)
def test_of_pools_that_are_more_than_half_full_a_fifth_is_dropped_where_room_is_least(
    room: tuple[int, int], left: str
) -> None:
    odd, even = shard("odd", pool="odd"), shard("even", pool="even")
    shards = [shard(str(index), pool=("even", "odd")[index % 2], room=1000) for index in range(10)]
    scene = Ring(shards, spec(pool_capacity=6000), lost=[odd, even])
    for where in shards:
        scene.put(where, 100 + int(where.name))
    for rest, free in zip((odd, even), room, strict=True):
        held = sum(scene.tally.on(shard.name) for shard in scene.layout.pools[rest.pool])
        scene.put(rest, 6000 - free - held)

    assert scene.left() == [*left.replace(" ", "")]


# Explanations


def test_every_candidate_is_reported_with_which_cut_it_was_dropped() -> None:
    home = shard("home", "z1")
    near, far, high = shard("near", "z1"), shard("far", "z2"), shard("high", "z3")
    abroad, nowhere = shard("abroad", "z1", region="r2"), shard("nowhere")
    scene = ring({home: 1, near: 1, far: 5, high: 40, abroad: 0, nowhere: 0}, spec(required=True))
    scene.put(home, 1, group=WEB)

    remarks = scene.placer.explain(demand(group=WEB), scene.tally).remarks

    assert remarks == {
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

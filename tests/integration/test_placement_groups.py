"""Spread and LeastLoaded on a real API server: zones, shards and regions of a group."""

import random
from collections import Counter
from collections.abc import Mapping
from typing import Final

import pytest

from sharder.core.api.meta import Json
from sharder.core.names import ShardName
from tests.support.console import create_aloud, explain
from tests.support.figures import show
from tests.support.scene import Scene
from tests.support.service import Service
from tests.support.users import CONFIGMAPS

GROUP: Final = "app"
ZONES: Final = {"a": "1", "b": "1", "c": "2", "d": "2", "e": "3", "f": "3"}
"""Six shards in three zones."""
TWO_A_ZONE: Final = {letter: {"zone": zone} for letter, zone in ZONES.items()}
SPREAD: Final[Json] = {"strategy": "Spread", "groupBy": {"labels": [GROUP]}}


def least_loaded(**more: Json) -> Json:
    return {"strategy": "LeastLoaded", "groupBy": {"labels": [GROUP]}, **more}


def in_zones(
    scene: Scene, owners: Mapping[str, str], zones: Mapping[str, str] = ZONES
) -> Counter[str]:
    """Count owners by zone, with a 0 for zones without any."""
    by_shard = {scene.shard(letter): zone for letter, zone in zones.items()}
    counted = Counter(dict.fromkeys(zones.values(), 0))
    counted.update(by_shard[ShardName(owner)] for owner in owners.values())
    return counted


def range_of(counts: Mapping[str, int]) -> int:
    return max(counts.values()) - min(counts.values())


async def test_the_groups_of_60_objects_are_even_over_zones_and_over_shards(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    order = [f"group-{number % 5}" for number in range(60)]
    random.Random(60).shuffle(order)
    uneven = list[str]()

    async with service.scene(CONFIGMAPS, shards=TWO_A_ZONE, placement=SPREAD) as scene:
        await scene.until_available()
        for number, group in enumerate(order):
            made = await scene.create(CONFIGMAPS, f"object-{number}", **{GROUP: group})
            assert scene.owner_of(made) in scene.shards
        for group in sorted(set(order)):
            owners = await scene.owners(CONFIGMAPS, f"{GROUP}={group}")
            zones = in_zones(scene, owners)
            shards = Counter(dict.fromkeys(scene.shards, 0))
            shards.update(ShardName(owner) for owner in owners.values())
            pairs = [(scene.shard(one), scene.shard(other)) for one, other in ("ab", "cd", "ef")]
            within = max(abs(shards[one] - shards[other]) for one, other in pairs)
            uneven.append(f"{group}: zones {sorted(zones.values())}, shards {within} apart")
            assert len(owners) == 12
            assert range_of(zones) <= 1, zones
            assert within <= 1, shards

    show(capsys, "; ".join(uneven))


async def test_three_of_a_group_land_in_three_zones(service: Service) -> None:
    placement = least_loaded()

    async with service.scene(CONFIGMAPS, shards=TWO_A_ZONE, placement=placement) as scene:
        await scene.until_available()
        for group in ("one", "two", "three"):
            for number in range(3):
                await scene.create(CONFIGMAPS, f"{group}-{number}", **{GROUP: group})
            owners = await scene.owners(CONFIGMAPS, f"{GROUP}={group}")

            assert in_zones(scene, owners) == Counter({"1": 1, "2": 1, "3": 1}), owners


async def test_required_anti_affinity_leaves_what_has_no_shard_of_its_own_unassigned_and_says_why(
    service: Service,
) -> None:
    placement = least_loaded(antiAffinity="Required")

    async with service.scene(CONFIGMAPS, placement=placement) as scene:
        await scene.until_available()
        for number in range(3):
            await scene.create(CONFIGMAPS, f"member-{number}", **{GROUP: "one"})
        owners = await scene.owners(CONFIGMAPS)

        surplus, warning = await create_aloud(
            service, scene, CONFIGMAPS, "surplus", labels={GROUP: "one"}
        )
        told = await explain(service, scene, surplus)
        stranger = await scene.create(CONFIGMAPS, "stranger", **{GROUP: "two"})
        new = await scene.join("d")
        after = await scene.until_owned(CONFIGMAPS, surplus, new)

        why = "every shard that can take the object (3) holds a member of its group"
        assert sorted(owners.values()) == sorted(map(scene.shard, "abc"))
        assert scene.owner_of(surplus) == ""
        assert f"antiAffinity Required: {why}" in warning
        assert told.placement is not None
        assert (told.wanted, told.placement.chosen) == (None, None)
        assert why in str(told.placement.reason)
        assert why in told.why
        assert told.placement.group == (f"label {GROUP}=one",)
        assert scene.owner_of(stranger) in scene.shards
        assert scene.owner_of(after) == new


async def test_a_pool_that_is_full_refuses_one_more_and_another_pool_takes_it(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    placement: Json = {"strategy": "LeastLoaded", "poolCapacity": 50, "requirePool": True}
    shards = {"a": {"pool": "blue"}, "b": {"pool": "blue"}}

    async with service.scene(CONFIGMAPS, shards=shards, placement=placement) as scene:
        await scene.until_available()
        for number in range(50):
            await scene.create(CONFIGMAPS, f"object-{number}")
        full = Counter((await scene.owners(CONFIGMAPS)).values())

        last, warning = await create_aloud(service, scene, CONFIGMAPS, "object-50")
        exhausted = await scene.until_condition("CapacityExhausted", "True")
        green = await scene.join("c", pool="green")
        after = await scene.until_owned(CONFIGMAPS, last, green)

        show(capsys, f"50 objects in a pool of two shards: {sorted(full.values())}; {warning}")
        assert full.keys() == {scene.shard("a"), scene.shard("b")}
        assert scene.owner_of(last) == ""
        assert "its pool blue is full: 50 of 50 objects" in warning
        assert exhausted.message.startswith("1 object cannot be assigned")
        assert scene.owner_of(after) == green


async def test_a_group_keeps_to_the_region_that_it_is_in(service: Service) -> None:
    zones = {"a": "n1", "b": "n2", "c": "n3", "d": "s1", "e": "s2", "f": "s3"}
    shards = {
        letter: {"region": "north" if zone[0] == "n" else "south", "zone": zone}
        for letter, zone in zones.items()
    }

    async with service.scene(CONFIGMAPS, shards=shards, placement=least_loaded()) as scene:
        await scene.until_available()
        for group in range(4):
            for number in range(6):
                name = f"group-{group}-{number}"
                await scene.create(CONFIGMAPS, name, **{GROUP: f"group-{group}"})
            owners = await scene.owners(CONFIGMAPS, f"{GROUP}=group-{group}")
            counted = {z: n for z, n in in_zones(scene, owners, zones).items() if n}

            regions = {zone[0] for zone in counted}
            assert len(regions) == 1, counted
            assert sorted(counted.values()) == [2, 2, 2], counted


@pytest.mark.parametrize("placement", [SPREAD, least_loaded()], ids=["Spread", "LeastLoaded"])
async def test_a_group_that_is_seen_by_its_controller_spreads_too(
    service: Service, placement: Json
) -> None:
    assert isinstance(placement, dict)
    by_owner: Json = {**placement, "groupBy": {"owner": True}}

    async with service.scene(CONFIGMAPS, shards=TWO_A_ZONE, placement=by_owner) as scene:
        await scene.until_available()
        owners = [
            {"apiVersion": "v1", "kind": "Node", "name": name, "uid": name, "controller": True}
            for name in ("one", "two")
        ]
        for number in range(12):
            await scene.author.create(
                CONFIGMAPS, f"{owners[number % 2]['name']}-{number}", namespace=scene.namespace,
                ownerReferences=[{**owners[number % 2]}],
            )  # fmt: skip
        found = await scene.owners(CONFIGMAPS)

        for name in ("one", "two"):
            mine = {key: owner for key, owner in found.items() if key.startswith(name)}
            assert sorted(in_zones(scene, mine).values()) == [2, 2, 2], mine
            assert len(set(mine.values())) == 6

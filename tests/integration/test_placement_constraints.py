"""What objects and shards say on a real API server: pins, pools, zones, cordons, capacities."""

from typing import Final

import pytest

from sharder.core.api.meta import Json
from sharder.core.names import (
    POOL_LABEL,
    WANTED_REGION_LABEL,
    WANTED_ZONE_LABEL,
    ZONE_LABEL,
    ShardName,
    pin_label,
)
from tests.support.console import create_aloud, explain
from tests.support.scene import Scene
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, CONTENT, PODS, User, controlled_by

STICKING: Final = ("BoundedLoad", "Spread", "LeastLoaded")
PINNED: Final = ("ConsistentHash", "BoundedLoad")

every_strategy: Final = pytest.mark.parametrize("strategy", PINNED)
every_sticking: Final = pytest.mark.parametrize("strategy", STICKING[:1])


def unlimited(strategy: str, **more: Json) -> Json:
    """A placement in which no shard has an automatic ceiling."""
    capacity = {"perShardCapacity": 100} if strategy in STICKING else {}
    return {"strategy": strategy, **capacity, **more}


async def create_some(scene: Scene, count: int, prefix: str, **labels: str) -> list[str]:
    """Create objects one after the other; return their owners."""
    made = [
        await scene.create(CONFIGMAPS, f"{prefix}-{number}", **labels) for number in range(count)
    ]
    return [scene.owner_of(obj) for obj in made]


# Pins


@pytest.mark.parametrize("strategy", PINNED)
async def test_a_pin_holds_while_the_shard_is_available_and_brings_the_object_back(
    service: Service, strategy: str
) -> None:
    placement: Json = {"strategy": strategy}

    async with service.scene(CONFIGMAPS, placement=placement) as scene:
        await scene.until_available()
        pin, home = pin_label(scene.ring), scene.shard("b")
        owners = await create_some(scene, 6, "pinned", **{pin: home})
        obj = (await scene.admin.find(CONFIGMAPS, pin, namespace=scene.namespace))[0]

        await scene.leave("b")
        away = await scene.until_owned(CONFIGMAPS, obj, scene.shard("a"), scene.shard("c"))
        elsewhere = await create_some(scene, 1, "meanwhile", **{pin: home})
        await scene.come_back("b")
        draining = await scene.until_draining(CONFIGMAPS, obj)
        await scene.acknowledge(CONFIGMAPS, draining)
        back = await scene.until_owned(CONFIGMAPS, obj, home)

        assert owners == [home] * 6
        assert not scene.is_draining(away)
        assert elsewhere[0] in {scene.shard("a"), scene.shard("c")}
        assert scene.owner_of(draining) == scene.owner_of(away)
        assert scene.owner_of(back) == home


@pytest.mark.parametrize("strategy", PINNED)
async def test_an_object_that_is_pinned_to_a_cordoned_shard_waits_until_that_may_take_it(
    service: Service, strategy: str
) -> None:
    placement: Json = {"strategy": strategy}
    shards = {"a": {}, "b": {"cordoned": "true"}}

    async with service.scene(CONFIGMAPS, shards=shards, placement=placement) as scene:
        await scene.until_available()
        pin, cordoned = pin_label(scene.ring), scene.shard("b")
        obj, warning = await create_aloud(
            service, scene, CONFIGMAPS, "pinned", labels={pin: cordoned}
        )
        told = await explain(service, scene, obj)
        await scene.say("b", cordoned=None)
        after = await scene.until_owned(CONFIGMAPS, obj, cordoned)

        assert scene.owner_of(obj) == ""
        assert f"{cordoned}: it is cordoned" in warning
        assert told.placement is not None
        assert told.placement.pin == cordoned
        assert {shard.name: shard.rejected for shard in told.placement.shards} == {
            scene.shard("a"): f"the object is pinned to {cordoned}",
            cordoned: "it is cordoned",
        }
        assert scene.owner_of(after) == cordoned


# What objects ask for


@every_strategy
async def test_an_object_goes_to_the_pool_the_region_and_the_zone_that_it_asks_for_or_waits(
    service: Service, strategy: str
) -> None:
    shards = {
        "a": {"region": "north", "zone": "north-1", "pool": "blue"},
        "b": {"region": "north", "zone": "north-2", "pool": "green"},
        "c": {"region": "south", "zone": "south-1", "pool": "green"},
        "d": {},
    }

    async with service.scene(CONFIGMAPS, shards=shards, placement=unlimited(strategy)) as scene:
        await scene.until_available()
        allowed = {
            "pool": ({POOL_LABEL: "green"}, "bc"),
            "region": ({WANTED_REGION_LABEL: "north"}, "ab"),
            "zone": ({WANTED_ZONE_LABEL: "south-1"}, "c"),
            "both": ({WANTED_REGION_LABEL: "north", POOL_LABEL: "green"}, "b"),
        }
        for name, (labels, letters) in allowed.items():
            owners = await create_some(scene, 8, name, **labels)
            assert set(owners) <= {scene.shard(letter) for letter in letters}, name
        plain = await create_some(scene, 3, "kubernetes", **{ZONE_LABEL: "nowhere"})
        lost, warning = await create_aloud(
            service, scene, CONFIGMAPS, "lost", labels={WANTED_ZONE_LABEL: "nowhere"}
        )

        assert set(plain) <= scene.shards
        assert scene.owner_of(lost) == ""
        assert "4 shards: the object asks for the zone nowhere" in warning


# Cordons


# Capacities and weights


# Children


@every_sticking
async def test_a_controlled_object_gets_the_shard_of_its_owner_from_any_creator(
    service: Service, strategy: str
) -> None:
    placement: Json = {"strategy": strategy, "perShardCapacity": 3}
    async with (
        service.scene(CONFIGMAPS, controlled=[PODS], placement=placement) as scene,
        service.user(service.pod(f"{scene.ring}-x", "tenants")) as stranger,
        service.user(service.pod(scene.shard("a"), "controllers")) as shard,
    ):
        await scene.until_available()
        owners = [await scene.create(CONFIGMAPS, f"owner-{number}") for number in range(9)]
        writers: dict[str, User] = {"person": scene.author, "account": stranger}
        for owner in owners:
            for who, user in writers.items():
                child = await user.create(
                    PODS, f"{owner.metadata.name}-{who}", namespace=scene.namespace,
                    content=CONTENT["Pod"],
                    ownerReferences=controlled_by(owner),
                )  # fmt: skip
                assert scene.owner_of(child) == scene.owner_of(owner), who
        mine = next(owner for owner in owners if scene.owner_of(owner) == scene.shard("a"))
        own = await shard.create(
            PODS, "own", namespace=scene.namespace, ownerReferences=controlled_by(mine),
            content=CONTENT["Pod"],
        )  # fmt: skip

        assert len({scene.owner_of(owner) for owner in owners}) == 3
        assert scene.owner_of(own) == scene.shard("a")


async def test_what_an_object_without_shard_controls_waits_with_it_and_gets_the_same(
    service: Service,
) -> None:
    placement: Json = {"strategy": "BoundedLoad"}
    async with service.scene(CONFIGMAPS, controlled=[PODS], placement=placement) as scene:
        await scene.until_available()
        owner = await scene.create(CONFIGMAPS, "owner", **{POOL_LABEL: "blue"})
        child = await scene.author.create(
            PODS, "child", namespace=scene.namespace, ownerReferences=controlled_by(owner),
            content=CONTENT["Pod"],
        )  # fmt: skip

        new: ShardName = await scene.join("d", pool="blue")
        await scene.until_owned(CONFIGMAPS, owner, new)
        await scene.until_owned(PODS, child, new)

        assert (scene.owner_of(owner), scene.owner_of(child)) == ("", "")

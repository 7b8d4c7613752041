"""What objects and shards say on a real API server: pins, pools, zones, cordons, capacities."""

from collections import Counter
from typing import Final

import pytest

from sharder.core.api.meta import Json, PartialObject
from sharder.core.movement.step import Action
from sharder.core.names import (
    POOL_LABEL,
    WANTED_REGION_LABEL,
    WANTED_ZONE_LABEL,
    ZONE_LABEL,
    ShardName,
    pin_label,
)
from tests.support.console import create_aloud, explain, plan
from tests.support.eventually import eventually
from tests.support.figures import show
from tests.support.scene import Scene
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, CONTENT, PODS, WITHIN, User, controlled_by

FOLLOWING: Final = ("ConsistentHash", "Rendezvous")
STICKING: Final = ("BoundedLoad", "Spread", "LeastLoaded")
PINNED: Final = ("ConsistentHash", "BoundedLoad")

every_strategy: Final = pytest.mark.parametrize("strategy", FOLLOWING + STICKING)
every_sticking: Final = pytest.mark.parametrize("strategy", STICKING)


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


async def until_asked(scene: Scene, *, owned: bool, **labels: str) -> None:
    """Wait until an object with these labels would get an owner, or none."""

    async def asked() -> bool:
        probe = await scene.author.create(
            CONFIGMAPS, "probe", namespace=scene.namespace, dry_run=True, labels={**labels}
        )
        return bool(scene.owner_of(probe)) is owned

    await eventually(asked, within=WITHIN)


async def passes(service: Service, scene: Scene) -> float:
    """Return how many passes over all objects of the ring have ended."""
    return await service.metric("resync_duration_seconds_count", controllerring=scene.ring)


async def until_passed(service: Service, scene: Scene, before: float) -> None:
    """Wait until another pass has ended."""

    async def passed() -> bool:
        return await passes(service, scene) > before

    await eventually(passed, within=WITHIN)


def versions(objects: tuple[PartialObject, ...]) -> dict[str, str | None]:
    return {obj.metadata.name: obj.metadata.resource_version for obj in objects}


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


async def test_a_pin_passes_the_automatic_ceiling_but_no_declared_one(service: Service) -> None:
    shards = {"a": {}, "b": {"capacity": "objects=5"}, "c": {}}
    placement: Json = {"strategy": "BoundedLoad"}

    async with service.scene(CONFIGMAPS, shards=shards, placement=placement) as scene:
        await scene.until_available()
        pin = pin_label(scene.ring)
        on_a = await create_some(scene, 8, "a", **{pin: scene.shard("a")})
        on_b = await create_some(scene, 6, "b", **{pin: scene.shard("b")})

        assert on_a == [scene.shard("a")] * 8
        assert on_b == [scene.shard("b")] * 5 + [""]


@pytest.mark.parametrize("strategy", PINNED)
async def test_a_pin_to_a_shard_that_is_unknown_is_no_pin(service: Service, strategy: str) -> None:
    placement: Json = {"strategy": strategy}

    async with service.scene(CONFIGMAPS, placement=placement) as scene:
        owners = await create_some(scene, 3, "lost", **{pin_label(scene.ring): "no-such-shard"})

        assert set(owners) <= scene.shards


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


async def test_labels_of_kubernetes_count_where_the_ring_says_so_and_ours_win(
    service: Service,
) -> None:
    shards = {"a": {"zone": "1"}, "b": {"zone": "2"}}
    placement: Json = {"strategy": "Rendezvous", "useTopologyLabels": True}

    async with service.scene(CONFIGMAPS, shards=shards, placement=placement) as scene:
        await scene.until_available()
        theirs = await create_some(scene, 5, "theirs", **{ZONE_LABEL: "1"})
        both = await create_some(scene, 5, "both", **{ZONE_LABEL: "1", WANTED_ZONE_LABEL: "2"})

        assert (set(theirs), set(both)) == ({scene.shard("a")}, {scene.shard("b")})


@every_strategy
async def test_a_ring_may_require_a_pool_or_a_zone_of_its_shards(
    service: Service, strategy: str
) -> None:
    shards = {"a": {"pool": "blue"}, "b": {"pool": "blue", "zone": "1"}, "c": {"zone": "1"}}
    for required, letters in (("requirePool", "ab"), ("requireZone", "bc")):
        placement: Json = {"strategy": strategy, required: True}

        async with service.scene(CONFIGMAPS, shards=shards, placement=placement) as scene:
            await scene.until_available()
            owners = await create_some(scene, 10, "object")

            assert "" not in owners
            assert set(owners) <= {scene.shard(letter) for letter in letters}, required


@every_sticking
async def test_objects_that_get_a_pool_after_their_shard_move_there_once(
    service: Service, strategy: str
) -> None:
    shards = {"a": {"pool": "blue"}, "b": {"pool": "blue"}, "c": {"pool": "green"}}

    async with service.scene(CONFIGMAPS, shards=shards, placement=unlimited(strategy)) as scene:
        await scene.until_available()
        owners = await create_some(scene, 10, "object")
        found = await scene.admin.find(CONFIGMAPS, namespace=scene.namespace)
        for obj in found:
            await scene.author.label(CONFIGMAPS, obj, {POOL_LABEL: "green"})
        green = scene.shard("c")
        misplaced = [obj for obj in found if scene.owner_of(obj) != green]
        planned = await plan(service, scene)
        told = await explain(service, scene, misplaced[0])

        async def moved() -> None:
            for obj in await scene.admin.find(CONFIGMAPS, scene.drain, namespace=scene.namespace):
                await scene.acknowledge(CONFIGMAPS, obj)
            assert set((await scene.owners(CONFIGMAPS)).values()) == {green}

        await scene.join("d", pool="blue")  # so that a pass begins
        await eventually(moved, within=WITHIN)
        there = await scene.admin.find(CONFIGMAPS, namespace=scene.namespace)
        count = await passes(service, scene)
        await scene.leave("d")
        await until_passed(service, scene, count)
        after = await scene.admin.find(CONFIGMAPS, namespace=scene.namespace)

        assert "" not in owners
        assert planned.summary.moves == len(misplaced)
        assert (told.wanted, told.to, told.action) == (green, green, Action.DRAIN)
        assert Counter(map(scene.owner_of, after)) == {green: 10}
        assert versions(after) == versions(there)


# Cordons


@every_strategy
async def test_a_cordoned_shard_gets_nothing_new_and_keeps_what_it_has(
    service: Service, strategy: str
) -> None:
    async with service.scene(CONFIGMAPS, shards="ab", placement={"strategy": strategy}) as scene:
        await scene.until_available()
        await create_some(scene, 40, "before")
        objects = await scene.admin.find(CONFIGMAPS, namespace=scene.namespace)
        count = await passes(service, scene)

        await scene.say("b", cordoned="true")
        pinned = {pin_label(scene.ring): scene.shard("b")}
        await until_asked(scene, owned=False, **pinned)
        await until_passed(service, scene, count)
        after = await scene.admin.find(CONFIGMAPS, namespace=scene.namespace)
        new = await create_some(scene, 12, "after")

        assert {scene.owner_of(obj) for obj in objects} == scene.shards
        assert versions(after) == versions(objects)
        assert set(new) == {scene.shard("a")}


# Capacities and weights


@every_sticking
async def test_the_lower_of_both_capacities_of_a_shard_counts(
    service: Service, strategy: str
) -> None:
    shards = {"a": {"capacity": "objects=2"}, "b": {"capacity": "objects=9,cpu=4"}}
    placement: Json = {"strategy": strategy, "perShardCapacity": 4}

    async with service.scene(CONFIGMAPS, shards=shards, placement=placement) as scene:
        await scene.until_available()
        owners = await create_some(scene, 8, "object")
        await scene.until_condition("CapacityExhausted", "True", "InsufficientCapacity")
        await scene.say("a", capacity="objects=3")

        async def one_more() -> Counter[str]:
            found = Counter((await scene.owners(CONFIGMAPS)).values())
            assert found[scene.shard("a")] == 3
            return found

        after = await eventually(one_more, within=WITHIN)

        assert Counter(owners) == {scene.shard("a"): 2, scene.shard("b"): 4, "": 2}
        assert after == {scene.shard("a"): 3, scene.shard("b"): 4, "": 1}


@pytest.mark.parametrize("strategy", FOLLOWING)
async def test_a_strategy_that_follows_ignores_the_capacity_of_a_shard(
    service: Service, strategy: str
) -> None:
    shards = {"a": {"capacity": "objects=1"}}

    async with service.scene(CONFIGMAPS, shards=shards, placement={"strategy": strategy}) as scene:
        assert await create_some(scene, 5, "object") == [scene.shard("a")] * 5


@every_sticking
async def test_a_pool_takes_what_it_has_room_for_over_all_its_shards(
    service: Service, strategy: str
) -> None:
    shards = {"a": {"pool": "blue"}, "b": {"pool": "blue"}, "c": {"pool": "green"}}
    placement = unlimited(strategy, poolCapacity=4)

    async with service.scene(CONFIGMAPS, shards=shards, placement=placement) as scene:
        await scene.until_available()
        owners = Counter(await create_some(scene, 10, "blue", **{POOL_LABEL: "blue"}))
        green = Counter(await create_some(scene, 6, "green", **{POOL_LABEL: "green"}))

        assert owners[""] == 6
        assert set(owners) <= {"", scene.shard("a"), scene.shard("b")}
        assert green == {scene.shard("c"): 4, "": 2}


async def test_with_rendezvous_a_shard_of_twice_the_weight_gets_twice_as_much(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    shards = {"a": {}, "b": {}, "c": {"weight": "2"}}

    async with service.scene(
        CONFIGMAPS, shards=shards, placement={"strategy": "Rendezvous"}
    ) as scene:
        await scene.until_available()
        found = Counter[str]()
        for number in range(600):
            probe = await scene.author.create(
                CONFIGMAPS, f"object-{number}", namespace=scene.namespace, dry_run=True
            )
            found[scene.owner_of(probe)] += 1

        # Six standard deviations of what chance makes of a half, and of a quarter.
        show(capsys, f"weights 1, 1 and 2: {[found[scene.shard(s)] for s in 'abc']}")
        assert abs(found[scene.shard("c")] - 300) <= 74
        assert abs(found[scene.shard("a")] - 150) <= 64


async def test_with_bounded_load_the_automatic_ceilings_follow_the_weights(
    service: Service,
) -> None:
    shards = {"a": {}, "b": {"weight": "1.0"}, "c": {"weight": "2"}}

    async with service.scene(
        CONFIGMAPS, shards=shards, placement={"strategy": "BoundedLoad"}
    ) as scene:
        await scene.until_available()
        owners = Counter(await create_some(scene, 40, "object"))

        assert owners == {scene.shard("a"): 10, scene.shard("b"): 10, scene.shard("c"): 20}


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

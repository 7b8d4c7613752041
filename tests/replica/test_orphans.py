"""Objects without an owner are assigned soon, unless their last shard might still work."""

import asyncio

import pytest

from sharder.core.api.meta import Json
from sharder.core.names import GroupResource
from tests.replica.staged import staged
from tests.replica.world import (
    CONFIGMAPS,
    DRAIN,
    NEXT,
    OWNER,
    SECRETS,
    SERIES,
    SITES,
    UNSEEN,
    World,
)
from tests.stage.stage import eventually


@staged
async def test_new_objects_are_assigned_within_a_second_many_by_one_list(world: World) -> None:
    await world.quiet("p0", "p1")
    await world.put("lone", "", CONFIGMAPS)
    await world.put("parent", "p0", to="p0")
    await world.put("child", "", CONFIGMAPS, of="parent")
    reads = len(world.requests("GET", "/websites/"))
    world.user.link.delay = world.replicas["r0"].link.delay = 0.0
    for number in range(40):
        await world.put(f"s{number}")
    assert max((await world.waited(SITES, *(f"s{n}" for n in range(40)))).values()) < 1
    assert await world.waited(CONFIGMAPS, "child") == {"child": pytest.approx(0.5, abs=0.5)}
    assert world.owners(CONFIGMAPS) == {"child": "p0", "lone": ""}
    assert len(world.requests("GET", "/websites/")) - reads < 40
    assert world.metric("unassigned_objects", **SERIES) == 0
    assert world.metric("movements_total", **SERIES) == 40


@pytest.mark.parametrize("resource", [SITES, SECRETS])
@staged
async def test_only_what_was_surely_released_does_not_wait(
    world: World, resource: GroupResource
) -> None:
    await world.quiet("p0", "p1")
    drains = ("released", "old", "replaced", "handed", "recent", "early")
    for name in drains:
        await world.put(name, "p0", resource, to="p1", draining=True)
    await world.patch(world.path("old", resource), {"metadata": {"annotations": {NEXT: None}}})
    await world.put("lost", "p0", resource, to="p0")
    await world.put("asked", "p0", resource, to="p1")
    await world.put("blip", "", resource)
    await asyncio.sleep(60)
    assert world.owner("asked", resource) == "p0*", "drained by a pass"
    await world.label("handed", {OWNER: "p1", DRAIN: None}, resource)
    for name in ("early", "asked"):
        await world.patch(world.path(name, resource), {"metadata": {"labels": {DRAIN: None}}})
    await asyncio.sleep(1)

    await world.acknowledge("released", resource)
    await world.acknowledge("old", resource)
    await world.label("replaced", {"team": "red", OWNER: None, DRAIN: None}, resource)
    for name in ("handed", "early", "lost", "asked", "blip"):
        await world.label(name, {OWNER: None}, resource)
    await world.label("recent", {DRAIN: None}, resource)
    await world.label("recent", {OWNER: None}, resource)
    got = await world.waited(resource, *drains, "lost", "asked", "blip")

    assert got.pop("released") < 0.5
    assert all(UNSEEN - 0.3 <= seconds <= UNSEEN + 1.5 for seconds in got.values()), got

    async def lose() -> None:
        for owner in ("p1", None):
            await world.label("lost", {OWNER: owner}, resource)

    await lose()
    await asyncio.sleep(2)
    world.replicas["r0"].link.stall(resource.resource)
    await lose()
    world.before("PATCH", "lost", lose)
    began = world.loop.time()
    await eventually(lambda: world.owner("lost", resource) == "p0", within=4 * UNSEEN)
    assert world.loop.time() - began >= 2 * UNSEEN


@staged
async def test_only_objects_in_scope_get_an_owner(world: World) -> None:
    selector: Json = {"matchLabels": {"team": "blue"}}
    await world.quiet("p0", "p1", namespaceSelector=selector, objectSelector=selector)
    for number in range(25):
        await world.add_namespace(f"blue-{number}", team="blue")
    await world.add_namespace("late")
    blue: dict[str, Json] = {"team": "blue"}
    await world.put("in", namespace="blue-0", labels=blue)
    await world.put("unselected", namespace="blue-0")
    await world.put("elsewhere", labels=blue)
    await world.put("late", namespace="late", labels=blue)
    await world.put("parent", "p0", to="p0", namespace="blue-1", labels=blue)
    await world.put("child", "", CONFIGMAPS, of="parent", namespace="blue-1")
    await asyncio.sleep(10)
    none = {"unselected": "", "elsewhere": "", "late": ""}
    owners = world.owners()
    assert owners.pop("in")
    assert owners == none | {"parent": "p0"}
    assert world.owners(CONFIGMAPS) == {"child": "p0"}
    assert world.metric("unassigned_objects", **SERIES) == 0

    await world.patch(world.path("unselected", namespace="blue-0"), {"metadata": {"labels": blue}})
    await world.patch("/api/v1/namespaces/late", {"metadata": {"labels": blue}})
    await eventually(lambda: world.owner("unselected") and world.owner("late"), within=20)
    assert world.owner("elsewhere") == ""
    world.refuse(500, part="/blue-2/")
    await world.put("poor", namespace="blue-2", labels=blue)
    await eventually(lambda: world.metric("unassigned_objects", **SERIES) == 1, within=5)
    await world.patch("/api/v1/namespaces/blue-2", {"metadata": {"labels": {"team": None}}})
    await eventually(lambda: world.metric("unassigned_objects", **SERIES) == 0, within=40)


@staged
async def test_orphans_and_drains_are_counted_with_their_age(world: World) -> None:
    await world.quiet("p0", "p1")
    end = world.refuse(500, "poor")
    await world.put("poor")
    await world.put("draining", "p0", draining=True, to="p1")
    await asyncio.sleep(20)
    for kind in ("unassigned", "draining"):
        assert world.metric(f"{kind}_objects", **SERIES) == 1
        age = world.metric(f"{kind}_oldest_seconds", **SERIES)
        assert age == pytest.approx(20, abs=1)
    assert (world.status.unassigned, world.status.draining) == (1, 1)
    assert world.status.oldest_unassigned_since
    assert world.status.oldest_drain_since
    assert world.conditions()["Covered"] != "AllOwned"
    end()
    await world.acknowledge("draining")
    await asyncio.sleep(60)
    assert [world.metric(f"{kind}_objects", **SERIES) for kind in ("unassigned", "draining")] == [
        0,
        0,
    ]
    assert [
        world.metric(f"{kind}_oldest_seconds", **SERIES) for kind in ("unassigned", "draining")
    ] == [0, 0]
    assert (world.status.unassigned, world.status.draining) == (0, 0)
    assert world.conditions()["Covered"] == "AllOwned"


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["watch", "get"])
@staged
async def test_the_rights_to_list_and_patch_are_enough(world: World, verb: str) -> None:
    await world.set_up(world.spec())
    world.join("p0")
    world.join("p1").acknowledges = False
    world.forbid(verb, SITES, SECRETS, CONFIGMAPS)
    world.start()
    await asyncio.sleep(40)
    assert (world.conditions().get("Watched") == "WatchMissing") == (verb == "watch")
    await asyncio.sleep(120)
    lists = len(world.requests("GET", "/websites"))
    await asyncio.sleep(60)
    assert len(world.requests("GET", "/websites")) - lists <= 12, "nothing moves"
    await world.put("site", "p1", draining=True, to="p0")
    await world.put("child", "p1", CONFIGMAPS, of="site")
    await world.put("new")
    await asyncio.sleep(40)
    await world.acknowledge("site")
    await eventually(lambda: world.owner("site") == "p0", within=8)
    await eventually(lambda: world.owner("new"), within=60)
    world.permit()
    await eventually(lambda: world.conditions()["Ready"] == "ReconciliationSucceeded", within=120)

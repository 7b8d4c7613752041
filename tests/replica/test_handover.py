"""A released object gets its next shard within moments, after what it controls."""

import asyncio

import pytest

from sharder.core.api.meta import Json
from sharder.core.names import GroupResource
from sharder.sdk.testing.requests import Call
from tests.replica.staged import staged
from tests.replica.world import CONFIGMAPS, DRAIN, NEXT, OWNER, PIN, SECRETS, SERIES, SITES, World
from tests.stage.stage import eventually

SOON = 0.5
"""Longer than acknowledgements are gathered."""


async def ready(world: World, **spec: Json) -> None:
    """Start with two shards, of which the first acknowledges nothing by itself."""
    await world.begin("p0", "p1", **spec)
    world.puppets["p0"].acknowledges = False
    world.has_webhook = False


async def family(
    world: World, name: str, owner: str = "p0", to: str = "p1", *, draining: bool = False
) -> None:
    """Create a website with two children, all on the same shard."""
    await world.put(name, owner, to=to, draining=draining)
    for number in range(2):
        await world.put(f"{name}-{number}", owner, CONFIGMAPS, of=name)


@staged
async def test_objects_that_were_released_in_any_way_follow_to_the_next_shard(
    world: World,
) -> None:
    await ready(world)
    for name in ("once", "owner-first", "ownerless", "unseen", "withdrawn", "deleted"):
        await family(world, name, draining=True)
    for name in ("plain", "elsewhere"):
        await world.put(name, "p0", SECRETS, to="p1", draining=True)
    await world.put("alone", "p0", CONFIGMAPS)
    await asyncio.sleep(1)
    before = len(world.written)

    await world.acknowledge("once")
    await world.label("owner-first", {OWNER: None})
    await world.label("owner-first", {DRAIN: None})
    await world.acknowledge("plain", SECRETS)
    await world.label("elsewhere", {OWNER: "p1", DRAIN: None}, SECRETS)
    await world.delete("deleted")
    await asyncio.sleep(SOON)

    drained = ("ownerless", "unseen", "withdrawn")
    moved = ("once", "owner-first")
    assert world.owners() == dict.fromkeys(drained, "p0*") | dict.fromkeys(moved, "p1")
    assert world.owners(SECRETS) == {"plain": "p1", "elsewhere": "p1"}
    on = {name: world.owner(f"{name}-0", CONFIGMAPS) for name in (*drained, *moved, "deleted")}
    assert on == dict.fromkeys((*drained, "deleted"), "p0") | dict.fromkeys(moved, "p1")
    assert world.owner("alone", CONFIGMAPS) == "p0"
    written = [each.name for each in world.written[before:]]
    assert "elsewhere" not in written
    assert len(written) == 7, "nothing is written twice"

    link = world.replicas["r0"].link
    link.cut()
    await world.acknowledge("unseen")
    world.storage.compact()
    link.heal()
    await eventually(lambda: world.owner("unseen") == "p1", within=20)
    await world.label("ownerless", {OWNER: None})
    await asyncio.sleep(5)
    await world.label("ownerless", {DRAIN: None})
    await eventually(lambda: world.owner("ownerless") == "p1", within=10)
    assert world.metric("movements_total", **SERIES) == len(moved) + 2


@staged
async def test_many_released_objects_are_moved_together_and_each_waits_only_for_its_own(
    world: World,
) -> None:
    await ready(world)
    names = [f"s{number}" for number in range(20)]
    for name in (*names, "slow"):
        await family(world, name, draining=True)
    await asyncio.sleep(1)
    lists = len(world.requests("GET", "/configmaps"))

    async def hang(call: object) -> None:
        if "slow-1" in str(call):
            await asyncio.sleep(20)

    end = world.intercept(hang)
    world.user.link.delay = 0.0
    await asyncio.gather(*(world.acknowledge(name) for name in (*names, "slow")))
    await asyncio.sleep(2 * SOON)
    assert world.owners() == dict.fromkeys(names, "p1") | {"slow": ""}
    assert len(world.requests("GET", "/configmaps")) - lists < len(names) / 2
    end()
    await eventually(lambda: world.owner("slow") == "p1", within=30)


@pytest.mark.parametrize("when", ["list", "child", "parent", "write", "late"])
@staged
async def test_a_shard_that_leaves_in_the_middle_gets_nothing_and_loses_what_it_got(
    world: World, when: str
) -> None:
    await ready(world)
    world.join("p2")
    await asyncio.sleep(3)
    await family(world, "site", to="p1", draining=True)
    await asyncio.sleep(1)
    left = list[float]()

    async def leave() -> None:
        left.append(world.loop.time())
        await world.puppets["p1"].release()
        if when != "write":  # with which that conflicts
            await world.label("site", {PIN: "p2"})
        await asyncio.sleep(0.2)

    method, name = {
        "list": ("GET", "configmaps"),
        "child": ("PATCH", "site-1"),
        "late": ("", "none"),
    }.get(when, ("PATCH", "site"))
    world.before(method, name, leave)
    end = world.refuse(503, "site-1" if when == "late" else "none")
    await world.acknowledge("site")
    if when == "late":
        await asyncio.sleep(3.5)
        await leave()
    end()
    goal, least = ("p0", 0) if when == "write" else ("p2", 2.9)
    await eventually(lambda: world.owner("site") == goal, within=8)
    assert world.loop.time() - left[0] >= least, "another replica could be moving its children"
    assert world.owners(CONFIGMAPS) == {"site-0": goal, "site-1": goal}


@staged
async def test_a_child_that_another_client_touches_meanwhile_goes_with_its_present_parent(
    world: World,
) -> None:
    await ready(world)
    await family(world, "site", draining=True)
    await world.put("other", "p0", to="p0")
    await asyncio.sleep(1)

    async def replace() -> None:
        await world.delete("site-0", CONFIGMAPS)
        await world.put("site-0", "p0", CONFIGMAPS, of="other")
        await world.delete("site-1", CONFIGMAPS)

    world.before("PATCH", "site-0", replace)
    await world.acknowledge("site")
    await eventually(lambda: world.owner("site") == "p1", within=5)
    assert world.owners(CONFIGMAPS) == {"site-0": "p0"}


@staged
async def test_what_left_the_ring_is_handed_to_nobody(world: World) -> None:
    await ready(world, namespaceSelector={"matchLabels": {"team": "blue"}})
    await world.add_namespace("blue", team="blue")
    await world.put("out", "p0", SECRETS, draining=True)
    await world.put("in", "p0", SECRETS, draining=True, namespace="blue", to="p1")
    await world.put("gone", "p0", SECRETS, draining=True, namespace="blue", to="p1")
    await asyncio.sleep(2)
    with_none: dict[str, Json] = {"metadata": {"labels": {OWNER: None, DRAIN: None}}}
    for name, namespace in (("out", "default"), ("in", "blue")):
        await world.patch(world.path(name, SECRETS, namespace), with_none)
    await asyncio.sleep(5)
    assert world.owners(SECRETS) == {"out": "", "in": "p1", "gone": "p0*"}

    await world.edit_ring(resources=[{"group": "example.com", "resource": "websites"}])
    await world.patch(world.path("gone", SECRETS, "blue"), with_none)
    await asyncio.sleep(5)
    assert world.owners(SECRETS)["gone"] == ""
    labels = {"controllerring": "demo", "group": "", "resource": "secrets"}
    assert world.metric("draining_objects", **labels) is None
    assert (
        world.metric(
            "draining_objects", **labels | {"group": "example.com", "resource": "websites"}
        )
        == 0
    )
    await world.write("DELETE", "/apis/sharding.timebertt.dev/v1alpha1/controllerrings/demo")
    await asyncio.sleep(2)
    assert (
        world.metric(
            "draining_objects", **labels | {"group": "example.com", "resource": "websites"}
        )
        is None
    )


@staged
async def test_what_is_main_and_controlled_moves_as_main_alone(world: World) -> None:
    main = world.spec()["resources"]
    assert isinstance(main, list)
    await ready(world, resources=[{"group": "", "resource": "configmaps"}, *main])
    world.leaves_children = True
    await world.put("site", "p0", to="p1", draining=True)
    await world.put("child", "p0", CONFIGMAPS, of="site", to="p0")
    await asyncio.sleep(1)
    await world.acknowledge("site")
    await eventually(lambda: world.owner("site") == "p1", within=5)
    assert world.owners(CONFIGMAPS) == {"child": "p0"}


@pytest.mark.parametrize("resource", [SECRETS, SITES])
@staged
async def test_an_object_whose_next_shard_is_gone_or_unknown_is_handed_over_anew(
    world: World, resource: GroupResource
) -> None:
    await ready(world)
    await world.put("obj", "p0", resource, to="p1", draining=True, annotations={NEXT: "ghost"})
    await asyncio.sleep(1)
    await world.patch(
        world.path("obj", resource),
        {"metadata": {"labels": {OWNER: None, DRAIN: None}, "annotations": {NEXT: "ghost"}}},
    )
    took = await eventually(lambda: world.owner("obj", resource) == "p1", within=10)
    assert (took < 1) == (resource == SECRETS), "another replica could be moving its children"
    assert NEXT not in (world.meta("obj", resource).annotations or {})


@staged
async def test_a_child_waits_until_its_parent_can_be_read_and_knows_it_by_its_uid(
    world: World,
) -> None:
    await ready(world)
    for name in ("read", "remade", "gone"):
        await world.put(name, "p1", to="p1")
    await asyncio.sleep(3)
    end = world.refuse(500, "read", method="GET")
    for name in ("read", "remade", "gone"):
        await world.put(f"{name}-c", "", CONFIGMAPS, of=name)
    await world.delete("gone")
    await world.delete("remade")
    await world.put("remade", "p0", to="p0")
    await asyncio.sleep(2)
    owners = world.owners(CONFIGMAPS)
    assert owners["read-c"] == ""
    assert {owners["gone-c"], owners["remade-c"]} <= {"p0", "p1"}, "the hash of its key counts"
    end()
    await eventually(lambda: world.owner("read-c", CONFIGMAPS) == "p1", within=20)

    await world.put("strange", "p0", draining=True, to="p1")
    await asyncio.sleep(5)
    await world.label("strange", {OWNER: None})
    await world.put("strange-c", "", CONFIGMAPS, of="strange")
    await eventually(lambda: world.owner("strange", SITES) == "p1", within=20)
    await eventually(lambda: world.owner("strange-c", CONFIGMAPS) == "p1", within=20)

    async def adopt() -> None:
        await world.delete("late-c", CONFIGMAPS)
        await world.put("late-c", "p0", CONFIGMAPS, of="remade")

    world.before("PATCH", "late-c", adopt)
    await world.put("late-c", "", CONFIGMAPS, of="strange")
    await asyncio.sleep(5)
    assert world.owner("late-c", CONFIGMAPS) == "p0"


@staged
async def test_an_object_that_an_edit_of_the_ring_interrupts_has_a_shard_soon(
    world: World,
) -> None:
    await world.begin("p0", "p1")
    world.puppets["p0"].acknowledges = False
    await world.put("site", "p0", to="p1", draining=True)
    await world.put("site-c", "p0", CONFIGMAPS, of="site")
    await asyncio.sleep(40)
    edited = asyncio.Event()

    async def hold(call: Call) -> None:
        if call.method == "PATCH" and call.path.endswith("/site-c"):
            await edited.wait()

    world.intercept(hold)
    world.puppets["p0"].acknowledges = True
    await eventually(lambda: not world.owner("site"), within=20)
    await asyncio.sleep(0.5)
    await world.edit_ring(movement={"maxMovesPerMinute": 1000})
    await asyncio.sleep(2)
    edited.set()
    await eventually(lambda: world.owner("site") == "p1", within=20)

"""A pass over all objects drains what belongs elsewhere, and leaves everything else alone."""

import asyncio

import pytest

from sharder.core.api.meta import Json
from sharder.core.names import GroupResource
from tests.replica.staged import staged
from tests.replica.world import CONFIGMAPS, NEXT, PIN, SECRETS, SERIES, World
from tests.stage.stage import eventually


async def pass_over(world: World) -> None:
    """Let the leader pass over everything, by an edit of the ring that changes nothing."""
    number = len(world.requests("GET", "/websites"))
    await world.edit_ring(movement={"drainTimeout": f"{5 + number}m"})
    await asyncio.sleep(4)


@staged
async def test_a_pass_drains_and_withdraws_exactly_what_belongs_elsewhere(world: World) -> None:
    await world.quiet("p0", "p1")
    await world.put("in-place", "p0", to="p0")
    await world.put("moves", "p0", to="p1")
    await world.put("moves-c", "p0", CONFIGMAPS, of="moves")
    await world.put("unwanted", "p0", to="p0", draining=True)
    await world.put("wanted", "p0", to="p1", draining=True)
    await world.put("strays-c", "p1", CONFIGMAPS, of="in-place")
    await world.put("old-next", "p1", to="p1", annotations={NEXT: "ghost"})
    await world.put("old-next-c", "p0", CONFIGMAPS, of="old-next")
    await world.put("no-parent", "p0", CONFIGMAPS)
    await world.put("dead-no-parent", "ghost", CONFIGMAPS, draining=True)
    await world.put("plain", "p0", SECRETS, to="p1")
    await pass_over(world)

    assert world.owners() == {
        "in-place": "p0",
        "moves": "p0*",
        "old-next": "p1",
        "unwanted": "p0",
        "wanted": "p0*",
    }
    assert world.owners(SECRETS) == {"plain": "p0*"}
    assert world.owners(CONFIGMAPS) == {
        "moves-c": "p0",
        "strays-c": "p0",
        "old-next-c": "p1",
        "no-parent": "",
        "dead-no-parent": "",
    }
    report = world.status.last_resync
    assert report is not None
    assert world.metric("drains_total", **SERIES) == 1

    before = len(world.written)
    await pass_over(world)
    await asyncio.sleep(20)
    assert len(world.written) == before, "a second pass finds nothing to do"

    await world.label("moves", {PIN: "p0"})
    await pass_over(world)
    assert world.owner("moves") == "p0", "withdrawn"
    assert world.owner("moves-c", CONFIGMAPS) == "p0"


@staged
async def test_what_left_the_scope_stays_and_keeps_its_children(world: World) -> None:
    selector: Json = {"matchLabels": {"team": "blue"}}
    await world.quiet("p0", "p1", objectSelector=selector)
    blue: dict[str, Json] = {"team": "blue"}
    finalizer: Json = {"metadata": {"finalizers": ["example.com/clean-up"]}}
    await world.put("left", "p0", to="p1")
    await world.put("left-c", "p0", CONFIGMAPS, of="left")
    for name in ("kept", "deleted"):
        await world.put(name, "ghost")
        await world.patch(world.path(name), finalizer)
    await world.delete("deleted")
    await world.put("home", "p1", to="p1", labels=blue)
    for name, owner in (("strayed", "p0"), ("stranded", "ghost"), ("new", "")):
        await world.put(name, owner, CONFIGMAPS, of="home")
    await pass_over(world)
    await asyncio.sleep(5)
    assert world.owners() == {
        "left": "p0",
        "kept": "ghost",
        "deleted": world.owner("deleted"),
        "home": "p1",
    }
    assert world.owner("deleted") in {"p0", "p1"}
    children = {"strayed": "p1", "stranded": "p1", "new": "p1"}
    assert world.owners(CONFIGMAPS) == children | {"left-c": "p0"}


@pytest.mark.parametrize("resource", [CONFIGMAPS, SECRETS])
@staged
async def test_late_objects_of_a_shard_that_left_are_found_by_the_next_pass(
    world: World, resource: GroupResource
) -> None:
    await world.begin("p0", "p1")
    await world.put("site", "p1", to="p1")
    await world.puppets["p0"].release()
    await asyncio.sleep(5)
    # A webhook that does not see the Leases still gives objects to the shard that left.
    await world.put("late", "p0", resource, of="site" if resource == CONFIGMAPS else "")
    await eventually(lambda: world.owner("late", resource) == "p1", within=20)


@staged
async def test_namespaces_that_come_are_passed_over_alone_and_at_once(world: World) -> None:
    await world.quiet("p0", "p1", namespaceSelector={"matchLabels": {"team": "blue"}})
    for number in range(3):
        await world.add_namespace(f"n{number}", team="red")
        await world.put(f"s{number}", namespace=f"n{number}", to="p0")
        await world.put(f"t{number}", "p0", namespace=f"n{number}", to="p1")
        await world.put(f"c{number}", "p1", CONFIGMAPS, of=f"t{number}", namespace=f"n{number}")
    for name in ("old", *(f"o{number}" for number in range(8))):
        await world.add_namespace(name, team="blue")
    await world.put("old", "p0", namespace="old", to="p0")
    await asyncio.sleep(10)
    asked = len(world.calls)
    for number in range(3):
        body: Json = {"metadata": {"labels": {"team": "blue"}}}
        await world.patch(f"/api/v1/namespaces/n{number}", body)
    await asyncio.sleep(8)
    assert [world.owner(f"s{number}") for number in range(3)] == ["p0"] * 3
    assert [world.owner(f"t{number}") for number in range(3)] == ["p0*"] * 3
    assert [world.owner(f"c{number}", CONFIGMAPS) for number in range(3)] == ["p0"] * 3
    lists = [
        call
        for call in world.calls[asked:]
        if call.method == "GET"
        and call.path.endswith("/websites")
        and "watch" not in call.query
        and "labelSelector" not in call.query
    ]
    assert not [call for call in lists if "/namespaces/old/" in call.path]

    for state in ("blue", "red"):
        await world.patch("/api/v1/namespaces/n0", {"metadata": {"labels": {"team": state}}})
    written = len(world.written)
    await asyncio.sleep(10)
    assert len(world.written) == written


@staged
async def test_two_kinds_of_parents_each_take_their_own_children(world: World) -> None:
    maps: Json = [{"group": "", "resource": "configmaps"}]
    resources: Json = [
        {"group": "", "resource": "secrets", "controlledResources": maps},
        {"group": "example.com", "resource": "websites", "controlledResources": maps},
        {"group": "", "resource": "gadgets", "controlledResources": maps},
    ]
    await world.quiet("p0", "p1", resources=resources)
    await world.put("site", "p0", to="p0")
    await world.put("of-site", "p0", CONFIGMAPS, of="site")
    world.puppets["p0"].kill()
    await eventually(lambda: world.owner("site") == "p1", within=30)
    assert world.owner("of-site", CONFIGMAPS) == "p1"
    assert "gadgets" in world.message(), "what is not served keeps nothing else back"

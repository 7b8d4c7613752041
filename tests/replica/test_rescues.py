"""The objects of a shard that is gone get another one; a shard that might work keeps them."""

import asyncio

import pytest

from sharder.core.names import SHARDER_IDENTITY, WEIGHT_ANNOTATION
from tests.replica.staged import staged
from tests.replica.world import CONFIGMAPS, DRAIN, GONE, LEASE_PATH, NEXT, OWNER, SECRETS, World
from tests.stage.stage import eventually


async def family(world: World, name: str, owner: str, *, to: str = "") -> None:
    """Create a website with a child, both on the same shard."""
    await world.put(name, owner, to=to)
    await world.put(f"{name}-c", owner, CONFIGMAPS, of=name)


async def lose(world: World, name: str, how: str) -> None:
    """Let a shard be gone."""
    shard = world.puppets[name]
    match how:
        case "released":
            await shard.release()
        case "killed":
            shard.kill()
        case _:
            shard.kill()
            await world.write("DELETE", f"{LEASE_PATH}/{name}")


@pytest.mark.parametrize(
    ("how", "least", "most", "state"),
    [
        ("released", 0, 1.5, "dead"),
        ("killed", 2 * 5 - 2.5, GONE, "dead"),
        ("deleted", 5, 40, ""),
    ],
)
@staged
async def test_objects_leave_a_shard_that_is_gone_after_their_children(
    world: World, how: str, least: float, most: float, state: str
) -> None:
    await world.begin("p0", "p1", "p2")
    await asyncio.sleep(25)
    for number in range(3):
        await family(world, f"s{number}", "p0")
        await family(world, f"t{number}", "p1", to="p1")
        await world.put(f"plain{number}", "p0", SECRETS)
    await world.label("s0", {DRAIN: "true"})
    await asyncio.sleep(2)
    world.puppets["p0"].acknowledges = False
    before = len(world.written)

    await lose(world, "p0", how)
    took = await eventually(lambda: not _are_on(world, "p0"))
    assert least <= took <= most
    assert {world.owner(f"t{number}") for number in range(3)} == {"p1"}
    for number in range(3):
        assert world.owner(f"s{number}") == world.owner(f"s{number}-c", CONFIGMAPS)
    seen = [(each.name, each.owner) for each in world.written[before:]]
    moved = [name for name, owner in seen if owner and not owner.endswith("*")]
    assert {"s0", "plain0"} <= set(moved) or how == "deleted"
    assert len(moved) == len(set(moved)), "nothing moves twice"
    assert not state or world.state("p0") == state
    await eventually(lambda: world.status.unassigned in {0, None})
    await eventually(lambda: world.conditions()["Covered"] == "AllOwned", within=40)


def _are_on(world: World, shard: str) -> bool:
    """Return whether an object is on the shard, or on its way."""
    everything = [*world.owners().values(), *world.owners(SECRETS).values()]
    return any(owner.startswith(shard) or not owner for owner in everything)


@staged
async def test_the_first_objects_have_a_shard_before_the_last_lose_theirs(world: World) -> None:
    leader = await world.begin("p0", "p1")
    world.start("r1")
    for number in range(40):
        await family(world, f"s{number}", "p0")
    lost = list[int]()

    async def look(_: object) -> None:
        await asyncio.sleep(0.005)
        lost.append(list(world.owners().values()).count(""))

    world.intercept(look)
    await world.puppets["p0"].release()
    await eventually(lambda: any(lost))
    leader.terminate()
    await eventually(lambda: set(world.owners().values()) == {"p1"}, within=2.5)
    assert 0 < max(lost) <= 15, "it finishes what it has sent, and its successor does the rest"


@staged
async def test_what_has_no_owner_already_is_rescued_first(world: World) -> None:
    await world.begin("p0")
    for number in range(40):
        await family(world, f"s{number}", "p0")
    await world.puppets["p0"].release()
    await asyncio.sleep(1)
    await family(world, "without", "")
    await asyncio.sleep(5)
    world.join("p1")
    await eventually(lambda: set(world.owners().values()) == {"p1"}, within=5)
    assert [each.name for each in world.written if each.owner == "p1"].index("without") < 40


@staged
async def test_nothing_is_drained_for_a_shard_that_joins_before_all_are_rescued(
    world: World,
) -> None:
    await world.begin("p0", "p1")
    for number in range(40):
        await family(world, f"s{number}", "p0")
        await family(world, f"t{number}", "p1")
    drained, busy = list[str](), asyncio.Lock()

    async def look(_: object) -> None:
        async with busy:
            await asyncio.sleep(0.01)
        owners = world.owners().values()
        if any(owner.endswith("*") for owner in owners):
            drained.extend(owner for owner in owners if owner in {"", "p0"})

    world.intercept(look)
    world.puppets["p1"].acknowledges = False
    await world.puppets["p0"].release()
    await asyncio.sleep(0.3)
    world.join("p2")
    await eventually(lambda: any(o.endswith("*") for o in world.owners().values()), within=20)
    assert drained == []


@staged
async def test_a_shard_that_goes_right_before_a_write_loses_the_children_first(
    world: World,
) -> None:
    await world.quiet("p0", "p1", "p2")
    await world.put("s", "p0", to="p1", draining=True)
    await world.put("s-c", "p0", CONFIGMAPS, of="s")

    async def arrive() -> None:
        """Let another replica finish the move, to a shard that works."""
        await world.label("s-c", {OWNER: "p2"}, CONFIGMAPS)
        await world.label("s", {OWNER: "p2"})

    async def go() -> None:
        """Let that shard end, and the write fail, so that it is decided again."""
        await world.puppets["p2"].release()
        await world.annotate("s", {"example.com/changed": "yes"})
        await asyncio.sleep(1)

    world.before("GET", "s", arrive)
    world.before("PATCH", "s", go)
    await world.acknowledge("s")

    await eventually(lambda: world.owner("s") == "p1")
    assert world.owner("s-c", CONFIGMAPS) == "p1"


@staged
async def test_an_edit_in_the_middle_of_a_rescue_does_not_hold_it_up(world: World) -> None:
    await world.begin("p0", "p1")
    await family(world, "site", "p0", to="p0")

    async def edit() -> None:
        await world.annotate("site", {"example.com/changed": "yes"})

    world.before("PATCH", "site", edit)
    await world.puppets["p0"].release()
    await eventually(lambda: world.owner("site-c", CONFIGMAPS) == "p1", within=10)
    assert await eventually(lambda: world.owner("site") == "p1", within=60) < 0.5


@staged
async def test_an_object_that_cannot_be_sent_gets_a_shard_all_the_same(world: World) -> None:
    await world.begin("p0", "p1")
    await family(world, "site", "p0", to="p0")

    async def strip() -> None:
        while True:
            await asyncio.sleep(0.003)
            if NEXT in (world.meta("site").annotations or {}):
                await world.annotate("site", {NEXT: None})

    async with asyncio.TaskGroup() as group:
        stripping = group.create_task(strip())
        world.puppets["p0"].kill()
        await eventually(lambda: world.owner("site") == "p1", within=120)
        stripping.cancel()
    assert world.owner("site-c", CONFIGMAPS) == "p1"


@staged
async def test_a_released_lease_is_held_while_objects_are_taken_and_given_back_as_it_was(
    world: World,
) -> None:
    await world.begin("p0", "p1")
    for number in range(20):
        await world.put(f"s{number}", "p0", SECRETS)
    holders = list[tuple[str, int]]()

    async def note(call: object) -> None:
        if "/secrets/s" in str(call) and "PATCH" in str(call):
            spec = world.lease("p0").spec
            holders.append((spec.holder_identity or "", spec.lease_duration_seconds or 0))

    world.intercept(note)
    writes = len(world.requests("PATCH", "/leases/p0"))
    await world.puppets["p0"].release()
    found = world.lease("p0").spec
    await eventually(lambda: not _are_on(world, "p0"), within=10)
    await asyncio.sleep(4)
    after = world.lease("p0").spec
    assert set(holders) == {(SHARDER_IDENTITY, 30)}
    assert len(holders) >= 20
    assert (after.holder_identity, after.renew_time) == ("", found.renew_time)
    assert after.lease_duration_seconds == found.lease_duration_seconds
    assert (after.lease_transitions or 0) == (found.lease_transitions or 0) + 1
    assert len(world.requests("PATCH", "/leases/p0")) - writes <= 4, "once for many objects"


@staged
async def test_a_replica_that_stops_gives_back_the_lease_it_holds(world: World) -> None:
    replica = await world.begin("p0", "p1")
    await world.put("s", "p0", SECRETS)
    await world.put("t", "p0", SECRETS)

    async def hang(call: object) -> None:
        if "/secrets/t" in str(call):
            await asyncio.sleep(0.95)

    world.intercept(hang)
    await world.puppets["p0"].release()
    await eventually(lambda: world.lease("p0").spec.holder_identity == SHARDER_IDENTITY, within=5)
    replica.terminate()
    await asyncio.sleep(1.8)
    assert world.lease("p0").spec.holder_identity == SHARDER_IDENTITY, "a write has just ended"
    await asyncio.sleep(3.2)
    assert world.lease("p0").spec.holder_identity == ""


@staged
async def test_a_lease_is_given_back_though_others_write_it_while_it_is_held(world: World) -> None:
    await world.begin("p0", "p1")
    await world.put("s", "p0", SECRETS)
    await world.puppets["p0"].release()
    await eventually(lambda: world.owner("s", SECRETS) == "p1", within=5)
    await world.patch(f"{LEASE_PATH}/p0", {"metadata": {"labels": {"x": "1"}}})
    assert world.lease("p0").spec.holder_identity == SHARDER_IDENTITY
    await eventually(lambda: world.lease("p0").spec.holder_identity == "", within=5)
    await world.put("t", "p0", SECRETS)
    await eventually(lambda: world.owner("t", SECRETS) == "p1", within=15)
    world.refuse(409, "p0", part="leases")
    await asyncio.sleep(3)
    await world.put("u", "p0", SECRETS)
    await asyncio.sleep(20)
    assert len([c for c in world.calls if c.path.endswith("/leases/p0")]) < 150, "no loop"


@staged
async def test_what_an_unseen_return_has_kept_moves_when_the_shard_leaves(world: World) -> None:
    replica = await world.begin("p0", "p1")
    await world.puppets["p0"].release()
    await asyncio.sleep(30)
    replica.link.stall("leases")
    for weight in "21212121":  # no more changes are applied at once
        await world.annotate_lease("p1", **{WEIGHT_ANNOTATION: weight})
    world.join("p0")
    await world.put("s", "p0", SECRETS)
    await world.edit_ring(movement={"drainTimeout": "7m"})
    await asyncio.sleep(1)
    await world.puppets["p0"].release()
    replica.link.heal()
    await eventually(lambda: world.owner("s", SECRETS) == "p1", within=5)

"""No more drains than the ring allows, and no rescue waits for that; late drains are told."""

import asyncio

import pytest

from sharder.core.api.meta import Json
from tests.replica.staged import staged
from tests.replica.world import DRAIN, PIN, SECRETS, World
from tests.stage.stage import eventually

PLAIN = {"controllerring": "demo", "group": "", "resource": "secrets"}


async def misplaced(world: World, many: int, **movement: Json) -> None:
    """Start with Secrets on one shard that belong on the other, and these limits."""
    await world.begin("p0", "p1", movement={"paused": True})
    world.has_webhook = False
    world.puppets["p0"].acknowledges = False
    for number in range(many):
        await world.put(f"s{number}", "p0", SECRETS, to="p1")
    await world.edit_ring(movement={"paused": None, **movement})


def draining(world: World) -> list[str]:
    """Return the Secrets that are being drained."""
    return [name for name, owner in world.owners(SECRETS).items() if owner.endswith("*")]


def moved(world: World) -> int:
    """Return how many Secrets are on the other shard."""
    return list(world.owners(SECRETS).values()).count("p1")


def withheld(world: World, limit: str) -> float:
    """Return how many drains were withheld because of a limit."""
    return world.metric("drains_withheld_total", controllerring="demo", limit=limit) or 0.0


@staged
async def test_only_so_many_objects_drain_from_a_shard_at_once(world: World) -> None:
    await misplaced(world, 4, maxConcurrentDrains=1)
    await asyncio.sleep(15)
    (first,) = draining(world)
    assert withheld(world, "maxConcurrentDrains") > 0
    world.puppets["p1"].acknowledges = False
    await world.put("from-other", "p1", SECRETS, to="p0")
    await world.edit_ring(movement={"drainTimeout": "7m"})
    await eventually(lambda: len(draining(world)) == 2, within=20)
    assert "from-other" in draining(world), "each shard has its own limit"

    for way in ("acknowledged", "deleted", "withdrawn"):
        old = set(draining(world))
        (now,) = old - {"from-other"}
        match way:
            case "acknowledged":
                await world.acknowledge(now, SECRETS)
            case "deleted":
                await world.delete(now, SECRETS)
            case _:
                await world.label(now, {DRAIN: None, PIN: "p0"}, SECRETS)
        while not set(draining(world)) - old:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        assert len(draining(world)) == 2
    assert first not in draining(world)


@staged
async def test_a_pass_goes_on_soon_when_there_is_room(world: World) -> None:
    await misplaced(world, 6, maxConcurrentDrains=1)
    world.puppets["p0"].acknowledges = True
    await eventually(lambda: moved(world) == 6, within=15)


@staged
async def test_what_waits_for_room_is_decided_again(world: World) -> None:
    await misplaced(world, 3, maxConcurrentDrains=1)
    await asyncio.sleep(5)
    (now,) = draining(world)
    waiting = set(world.owners(SECRETS)) - {now}
    for name in waiting:
        await world.label(name, {PIN: "p0"}, SECRETS)
    await world.acknowledge(now, SECRETS)
    await asyncio.sleep(30)
    assert draining(world) == []
    assert world.metric("drains_total", **PLAIN) == 1


@pytest.mark.slow
@staged
async def test_parents_keep_their_place_until_they_have_an_owner_again(world: World) -> None:
    await world.begin("p0", "p1", movement={"paused": True})
    world.has_webhook = False
    world.puppets["p0"].acknowledges = False
    world.user.link.delay = world.replicas["r0"].link.delay = 0.0
    for number in range(420):
        await world.put(f"s{number}", "p0", to="p1")
    await world.edit_ring(movement={"paused": None})
    await asyncio.sleep(20)
    asked = [name for name, owner in world.owners().items() if owner.endswith("*")]
    assert len(asked) == 400
    assert withheld(world, "handOver") > 0
    world.puppets["p0"].acknowledges = True
    await eventually(lambda: set(world.owners().values()) == {"p1"}, within=120)


# Drains that take too long.


@staged
async def test_a_drain_that_takes_too_long_is_told_everywhere_until_it_is_over(
    world: World,
) -> None:
    await misplaced(world, 3, drainTimeout="10s")
    await world.put("parent", "p0", to="p1", draining=True)
    await asyncio.sleep(9)
    assert world.metric("overdue_drains", **PLAIN) == 0
    assert world.events("DrainOverdue") == []
    await asyncio.sleep(8)
    assert world.metric("overdue_drains", **PLAIN) == 3
    told = world.events("DrainOverdue")
    assert sorted(name for name, _ in told) == ["parent", "s0", "s1", "s2"]
    assert told[0][1].startswith("ring demo: shard p0 has not acknowledged the drain for 1")
    assert "4" in world.message("Covered")
    assert world.conditions()["Covered"] == "DrainOverdue"
    await asyncio.sleep(120)
    assert len(world.events("DrainOverdue")) == 4, "each once"

    world.puppets["p0"].acknowledges = True
    await asyncio.sleep(15)
    assert world.metric("overdue_drains", **PLAIN) == 0
    assert world.conditions()["Covered"] == "AllOwned"
    configmaps = {**PLAIN, "resource": "configmaps"}
    assert world.metric("overdue_drains", **configmaps) is None

"""Rebalancing drains objects until the shards are even, within its limits, and says why not."""

import asyncio

import pytest

from sharder.core.api.meta import Json
from sharder.core.names import CAPACITY_ANNOTATION, LOAD_ANNOTATION
from tests.replica.staged import staged
from tests.replica.world import SECRETS, World
from tests.stage.stage import eventually

INTERVAL = 60.0
ROOMY: Json = {"strategy": "LeastLoaded"}


def even(**more: Json) -> Json:
    """Return a policy that evens out numbers."""
    return {"strategy": "EvenLoad", "interval": "60s", **more}


async def lopsided(world: World, many: int, policy: Json, *shards: str, **spec: Json) -> None:
    """Start with Secrets on the first shard, and nothing on the others."""
    await world.begin(*(shards or ("p0", "p1")), placement=ROOMY, **spec)
    world.has_webhook = False
    world.puppets["p0"].acknowledges = False
    for number in range(many):
        await world.put(f"w{number:02}", "p0", SECRETS)
    await asyncio.sleep(2)
    await world.edit_ring(rebalance=policy)
    await asyncio.sleep(4)


def counts(world: World) -> dict[str, int]:
    """Return how many Secrets are on each shard."""
    owners = list(world.owners(SECRETS).values())
    return {owner: owners.count(owner) for owner in sorted(set(owners))}


def last(world: World) -> tuple[int, str]:
    """Return the moves of the last look, and why."""
    rebalance = world.status.last_rebalance
    return (-1, "") if rebalance is None else (rebalance.moves, rebalance.why)


@staged
async def test_objects_are_drained_to_their_target_until_the_shards_are_even(world: World) -> None:
    await lopsided(world, 6, even())
    assert counts(world) == {"p0": 3, "p0*": 3}
    assert {each.next for each in world.written if each.owner.endswith("*")} == {"p1"}
    assert last(world)[0] == 3
    labels = {"controllerring": "demo"}
    assert world.metric("rebalance_moves_total", **labels) == 3
    assert world.metric("rebalance_planned_moves", **labels) == 3
    assert [name for name, _ in world.events("Rebalanced")] == ["demo"]
    await asyncio.sleep(INTERVAL + 5)
    assert counts(world) == {"p0": 3, "p0*": 3}, "what is on its way counts"
    world.puppets["p0"].acknowledges = True
    await eventually(lambda: counts(world) == {"p0": 3, "p1": 3}, within=20)
    await world.edit_ring(rebalance=None)
    await asyncio.sleep(40)
    assert world.status.last_rebalance is None
    assert world.metric("rebalance_planned_moves", **labels) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "spec", "first", "second"),
    [
        (even(maxMovesPerInterval=2), {}, 2, 4),
        (even(), {"movement": {"maxConcurrentDrains": 2}}, 2, 4),
        (even(dryRun=True), {}, 0, 0),
        (even(), {"movement": {"paused": True}}, 0, 0),
        (even(interval="often"), {}, 5, 5),
    ],
)
@staged
async def test_a_look_moves_no_more_than_it_may(
    world: World, policy: Json, spec: dict[str, Json], first: int, second: int
) -> None:
    await lopsided(world, 10, policy, **spec)
    assert counts(world).get("p0*", 0) == first
    await asyncio.sleep(INTERVAL + 5)
    assert counts(world).get("p0*", 0) == second
    moves, why = last(world)
    rebalance = world.status.last_rebalance
    assert rebalance is not None
    if rebalance.dry_run:
        assert moves == 5
        assert {(each.source, each.target) for each in rebalance.planned} == {("p0", "p1")}
    elif not first:
        assert moves == 0
        assert "paused" in why


@staged
async def test_a_run_that_crashes_is_reported_and_tried_again(world: World) -> None:
    await lopsided(world, 6, None)
    world.replicas["r0"].crashes = True
    await world.edit_ring(rebalance=even())
    told = "the next run tries again: it ended with -9"
    await eventually(lambda: told in last(world)[1], within=40)
    assert counts(world) == {"p0": 6}
    world.replicas["r0"].crashes = False
    await eventually(lambda: counts(world).get("p0*") == 3, within=2 * INTERVAL)


@pytest.mark.slow
@staged
async def test_a_leader_that_is_gone_takes_its_plans_along(world: World) -> None:
    await lopsided(world, 8, even(maxMovesPerInterval=1))
    world.start("r1")
    await asyncio.sleep(5)
    world.replicas["r0"].kill()
    await eventually(lambda: world.replicas["r1"].leads, within=20)
    await asyncio.sleep(2 * INTERVAL)
    assert 2 <= counts(world)["p0*"] <= 4
    assert world.metric("rebalance_moves_total", "r1", controllerring="demo")
    await world.write("DELETE", "/apis/sharding.timebertt.dev/v1alpha1/controllerrings/demo")
    await asyncio.sleep(3)
    assert world.metric("rebalance_planned_moves", "r1", controllerring="demo") is None


@staged
async def test_resources_are_balanced_by_what_objects_and_their_children_declare(
    world: World,
) -> None:
    await lopsided(world, 0, None)
    for name in ("p0", "p1"):
        await world.annotate_lease(name, **{CAPACITY_ANNOTATION: "cpu=100"})
    for name, owner, cpu in (("s0", "p0", "40"), ("s1", "p0", "10"), ("s2", "p1", "30")):
        await world.put(name, owner, SECRETS, annotations={LOAD_ANNOTATION: f"cpu={cpu}"})
    await asyncio.sleep(3)
    await world.edit_ring(rebalance=even(resources=["cpu"]))
    await asyncio.sleep(5)
    assert [each.name for each in world.written if each.owner.endswith("*")] == ["s1"]
    assert "0.4 to 0.4 instead of 0.3 to 0.5" in last(world)[1]

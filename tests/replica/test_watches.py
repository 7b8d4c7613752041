"""What each replica sees: rings, Leases and namespaces, also after outages and gaps."""

import asyncio

import pytest

from sharder.core.api.meta import Json
from sharder.core.api.ring import ControllerRing
from sharder.core.fence import fence_of
from sharder.core.names import ObjectRef
from sharder.kube.typed_stores import LEASES, NAMESPACES, RINGS
from tests.replica.staged import staged
from tests.replica.world import LEASE_PATH, OWNER, SECRETS, World
from tests.stage.admission import BINDINGS, POLICIES
from tests.stage.stage import eventually


async def created(world: World, name: str, namespace: str = "default") -> str:
    """Create a Secret through the webhook; return its owner."""
    body: Json = {"metadata": {"name": name}}
    return (await world.write("POST", world.path("", SECRETS, namespace), body)).meta.label(OWNER)


def gap(world: World) -> None:
    """End the watches after a gap: what they resume from is forgotten."""
    world.storage.compact()
    world.servers[0].hang_up()


@staged
async def test_admission_follows_shards_rings_and_namespaces_at_once(world: World) -> None:
    await world.begin("p0", namespaceSelector={"matchLabels": {"team": "blue"}})
    await world.add_namespace("blue", team="blue")
    await asyncio.sleep(1)
    assert await created(world, "first", "blue") == "p0"
    assert await created(world, "out") == ""
    world.join("p1")
    await asyncio.sleep(0.5)
    owners = {await created(world, f"s{number}", "blue") for number in range(20)}
    assert owners == {"p0", "p1"}
    await world.puppets["p0"].release()
    await asyncio.sleep(0.3)
    assert {await created(world, f"t{number}", "blue") for number in range(10)} == {"p1"}
    await world.patch("/api/v1/namespaces/blue", {"metadata": {"labels": {"team": "red"}}})
    await asyncio.sleep(0.5)
    assert await created(world, "late", "blue") == ""
    await world.edit_ring(namespaceSelector={"matchLabels": {"team": "red"}})
    await asyncio.sleep(0.5)
    assert await created(world, "again", "blue") == "p1"
    assert await created(world, "system", "kube-system") == ""


@pytest.mark.parametrize("watch", ["controllerrings", "leases", "namespaces"])
@staged
async def test_a_watch_that_fails_is_shown_and_nothing_is_taken_meanwhile(
    world: World, watch: str
) -> None:
    await world.begin("p0", "p1")
    await world.put("secret", "p0", SECRETS, to="p0")
    of = {"controllerrings": RINGS, "leases": LEASES, "namespaces": NAMESPACES}[watch]
    assert world.metric("watch_healthy", watch=watch) == 1
    world.forbid("watch", of.id)
    world.forbid("list", of.id)
    await eventually(lambda: world.metric("watch_healthy", watch=watch) == 0, within=20)
    await world.write("DELETE", f"{LEASE_PATH}/p1")
    await asyncio.sleep(10)
    assert world.owner("secret", SECRETS) == "p0"
    world.permit()
    await eventually(lambda: world.metric("watch_healthy", watch=watch) == 1, within=30)
    await asyncio.sleep(5)
    assert await created(world, "new") == "p0" or watch != "leases"


@staged
async def test_while_no_lease_is_seen_new_objects_are_left_to_the_leader(world: World) -> None:
    await world.begin("p0", "p1")
    link = world.replicas["r0"].link
    assert await created(world, "before")
    link.cut()
    await asyncio.sleep(8)
    assert await created(world, "blind") == ""
    link.heal()
    await eventually(lambda: world.owner("blind", SECRETS), within=40)
    assert await created(world, "after")


@pytest.mark.slow
@staged
async def test_many_leases_that_come_and_go_stop_neither_moves_nor_a_rescue(world: World) -> None:
    await world.begin("p0", "p1")
    await world.put("secret", "p0", SECRETS, to="p0")
    await asyncio.sleep(3)
    world.puppets["p0"].kill()

    async def flap() -> None:
        for number in range(10_000):
            shard = world.join(f"forged-{number}")
            await asyncio.sleep(0.1)
            await shard.release()

    async with asyncio.TaskGroup() as group:
        flapping = group.create_task(flap())
        took = await eventually(lambda: world.owner("secret", SECRETS) == "p1", within=60)
        flapping.cancel()
    assert took <= 2 * 5 + 10
    built = world.metric("ring_calculations_total", controllerring="demo") or 0
    assert built <= 120, "rebuilt at a bounded pace"


@staged
async def test_a_fence_is_proven_each_minute_and_shown(world: World) -> None:
    await world.begin("p0")
    assert "Fenced" not in world.conditions()
    proofs = len([call for call in world.calls if call.dry_run])
    ring = world.objects(RINGS.id)[ObjectRef("", "demo")].as_(ControllerRing)
    policy, binding = fence_of(ring, [ObjectRef("default", "shard")])
    for resource, body in ((POLICIES, policy), (BINDINGS, binding)):
        await world.write("POST", f"/apis/{resource.id.group}/v1/{resource.id.resource}", body)
    await eventually(lambda: world.conditions().get("Fenced") == "Enforced", within=70)
    await asyncio.sleep(120)
    assert 2 <= len([call for call in world.calls if call.dry_run]) - proofs <= 8
    path = f"/apis/{BINDINGS.id.group}/v1/{BINDINGS.id.resource}"
    (bound,) = [ref.name for ref in world.objects(BINDINGS.id)]
    await world.write("DELETE", f"{path}/{bound}")
    await eventually(lambda: world.conditions().get("Fenced") == "NotInstalled", within=70)
    assert world.conditions()["Ready"] == "ReconciliationSucceeded"

"""Rings that count: no shard stays above its ceiling, and otherwise placed objects stay."""

import asyncio

import pytest

from sharder.core.api.meta import Json
from sharder.core.names import EVACUATE_ANNOTATION
from tests.replica.staged import staged
from tests.replica.world import OWNER, SECRETS, SITES, World
from tests.stage.stage import RINGS_PATH, eventually

MANY = 21
"""So many namespaces that one watch shows all."""


def bounded(capacity: int | None = None) -> Json:
    """Return a placement that counts, with this ceiling."""
    ceiling: dict[str, Json] = {} if capacity is None else {"perShardCapacity": capacity}
    return {"strategy": "BoundedLoad", **ceiling}


async def quiet(world: World, *shards: str, capacity: int | None = None, **spec: Json) -> None:
    """Start with shards that acknowledge nothing by themselves, and no webhook."""
    await world.quiet(*shards, placement=bounded(capacity), **spec)


async def fill(world: World, owner: str, many: int, name: str = "s") -> None:
    """Create websites that stand on a shard."""
    for number in range(many):
        await world.put(f"{name}{number}", owner)


@pytest.mark.parametrize("resource", [SITES, SECRETS])
@staged
async def test_a_shard_above_its_ceiling_drains_until_it_has_room_and_pinned_ones_last(
    world: World, resource: object
) -> None:
    assert resource in {SITES, SECRETS}
    of = SITES if resource == SITES else SECRETS
    await quiet(world, "p0", "p1", capacity=3)
    for number in range(3):
        await world.put(f"s{number}", "p0", of)
    await asyncio.sleep(3)
    await world.put("pinned", "p0", of, to="p0")
    await world.put("late", "p0", of)
    await eventually(lambda: list(world.owners(of).values()).count("p0*") == 2, within=3.5)
    asked = {name for name, owner in world.owners(of).items() if owner == "p0*"}
    assert "pinned" not in asked
    await world.edit_ring(movement={"drainTimeout": "7m"})
    await asyncio.sleep(10)
    now = {name for name, owner in world.owners(of).items() if owner == "p0*"}
    assert now == asked, "what was displaced stays displaced"

    await world.edit_ring(placement={"perShardCapacity": 5})
    await eventually(lambda: set(world.owners(of).values()) == {"p0"}, within=10)
    await world.edit_ring(placement={"perShardCapacity": 4})
    await eventually(lambda: list(world.owners(of).values()).count("p0*") == 1, within=10)
    world.puppets["p0"].acknowledges = True
    await eventually(lambda: list(world.owners(of).values()).count("p1") == 1, within=10)


@staged
async def test_an_object_that_is_being_deleted_makes_room_for_no_other(world: World) -> None:
    await quiet(world, "p0", "p1", capacity=8)
    await fill(world, "p0", 8)
    finalizer: Json = {"metadata": {"finalizers": ["example.com/clean-up"]}}
    for number in range(4):
        await world.patch(world.path(f"s{number}"), finalizer)
        await world.delete(f"s{number}")
    await world.edit_ring(placement={"perShardCapacity": 3})
    await asyncio.sleep(10)
    stays = [name for name, owner in world.owners().items() if owner == "p0"]
    assert len([name for name in stays if int(name[1:]) >= 4]) <= 3


@pytest.mark.parametrize("paused", [False, True])
@staged
async def test_room_that_comes_takes_what_is_on_shards_that_should_be_empty(
    world: World, paused: bool
) -> None:
    await quiet(world, "p0", "p1", "p2", capacity=2, movement={"paused": paused})
    await fill(world, "p0", 2)
    await fill(world, "p1", 2, "t")
    await fill(world, "p2", 2, "u")
    await world.annotate_lease("p2", **{EVACUATE_ANNOTATION: "true"})
    await asyncio.sleep(30)
    assert world.counts() == {"p0": 2, "p1": 2, "p2": 2}
    await world.delete("s0")
    await asyncio.sleep(5)
    assert world.counts().get("p2*", 0) == (0 if paused else 1)

    await world.annotate_lease("p2", **{EVACUATE_ANNOTATION: None})
    await asyncio.sleep(5)
    world.puppets["p2"].kill()
    await asyncio.sleep(20)
    left = world.counts()
    assert sum(count for owner, count in left.items() if owner.startswith("p2")) == 1
    await world.delete("t0")
    await eventually(lambda: "p2" not in str(world.counts()), within=20)


@pytest.mark.parametrize("code", [403, 503])
@staged
async def test_nothing_is_placed_or_displaced_before_all_that_can_be_read_is_counted(
    world: World, code: int
) -> None:
    await world.set_up(world.spec(placement=bounded(3)))
    world.join("p0")
    world.join("p1")
    await fill(world, "p0", 5)
    replica = world.start()
    end = world.refuse(code, method="GET", part="/secrets")
    world.has_webhook = False
    await asyncio.sleep(3)
    await fill(world, "", 2, "new")
    await asyncio.sleep(4)
    full = {"": 1, "p0": 3, "p1": 3}
    assert world.counts() == (full if code == 403 else {"": 2, "p0": 5})
    assert bool(replica.replica.cache.uncounted()) == (code == 503)
    end()
    await eventually(lambda: world.counts() == full, within=90)


@staged
async def test_what_cannot_be_read_stops_no_placement_while_namespaces_are_relabelled(
    world: World,
) -> None:
    await quiet(world, "p0", "p1", namespaceSelector={"matchLabels": {"in": "yes"}})
    for number in range(MANY):
        await world.add_namespace(f"tenant-{number}", **{"in": "yes"})
    await world.add_namespace("mine")
    world.forbid("list", SECRETS)
    world.refuse(503, method="GET", part="/secrets")
    await asyncio.sleep(30)
    for chosen in ("yes", None, "yes"):
        body: Json = {"metadata": {"labels": {"in": chosen}}}
        await world.patch("/api/v1/namespaces/mine", body)
        await asyncio.sleep(3)
        assert not world.replicas["r0"].replica.cache.uncounted()


@pytest.mark.parametrize(
    ("strategy", "others"), [("BoundedLoad", 0), ("BoundedLoad", MANY), ("ConsistentHash", 0)]
)
@staged
async def test_counts_follow_the_scope_of_the_ring(
    world: World, strategy: str, others: int
) -> None:
    selected: Json = {"matchLabels": {"in": "yes"}}
    await world.quiet("p0", "p1", placement={"strategy": strategy}, namespaceSelector=selected)
    world.replicas["r0"].link.stream_seconds = 1_800.0, 3_600.0
    for number in range(others):
        await world.add_namespace(f"tenant-{number}", **{"in": "yes"})
    await world.add_namespace("mine")
    await world.put("site", "p0", namespace="mine")
    await world.put("early", "p0", namespace="young")
    await asyncio.sleep(60)
    assert not world.metric("controllerring_objects", controllerring="demo")

    async def shows(count: int, shard: str = "p0") -> None:
        labels = {"namespace": "default", "shard": shard, "controllerring": "demo"}
        await eventually(lambda: world.metric("shard_objects", **labels) == count, within=40)
        await asyncio.sleep(40)

    for label, count in (("yes", 1), ("no", 0), ("yes", 1)):
        await world.patch("/api/v1/namespaces/mine", {"metadata": {"labels": {"in": label}}})
        await shows(count)
    await world.add_namespace("young", **{"in": "yes"})
    await shows(2)
    for labels in ({"none": "has"}, None):
        await world.edit_ring(objectSelector=labels and {"matchLabels": labels})
        await shows(0 if labels else 2)
    await world.delete("site", namespace="mine")
    await world.label("early", {OWNER: "p1"}, namespace="young")
    await shows(0)
    await shows(1, "p1")
    world.storage.compact()
    world.servers[0].hang_up()
    await world.delete("early", namespace="young")
    await shows(0, "p1")


@staged
async def test_a_ring_that_is_made_anew_is_counted_and_passed_over_anew(world: World) -> None:
    await quiet(world, "p0", "p1", capacity=3)
    await fill(world, "p0", 3)
    await world.write("DELETE", f"{RINGS_PATH}/demo")
    await asyncio.sleep(6)
    assert world.metric("controllerring_objects", controllerring="demo") is None
    await fill(world, "p0", 1, "more")
    spec = world.spec(placement=bounded(2))
    await world.write("POST", RINGS_PATH, {"metadata": {"name": "demo"}, "spec": spec})
    await eventually(lambda: world.counts().get("p0*") == 2, within=10)
    await eventually(lambda: world.metric("controllerring_objects", controllerring="demo") == 4)

"""What happens to shards and rings is told once: as Events, metrics, and to the console."""

import asyncio

import pytest

from sharder.core.names import (
    CAPACITY_ANNOTATION,
    EVACUATE_ANNOTATION,
    LOAD_ANNOTATION,
    ZONE_LABEL,
)
from tests.replica.staged import staged
from tests.replica.world import LEASE_PATH, SECRETS, World
from tests.stage.actors import RING
from tests.stage.stage import RINGS_PATH, eventually


class Reader:
    """Reads what is new among the Events of transitions."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._known = len(world.events())

    async def news(self, seconds: float = 2.5) -> dict[str, str]:
        """Return reason and message of the new Events after a while."""
        await asyncio.sleep(seconds)
        told = list(self.world.told())
        new, self._known = told[self._known :], len(told)
        return dict(new)


@staged
async def test_shards_that_join_leave_fall_silent_and_return_are_told_once(world: World) -> None:
    await world.begin("p0", "p1")
    first = dict(world.told())
    assert first["ShardJoined"] == "shards p0, p1 joined; available shards: 2"
    assert first["LeaderElection"].endswith("became leader")
    reader = Reader(world)
    assert await reader.news(30) == {}, "a quiet ring"

    world.join("p2")
    assert await reader.news() == {"ShardJoined": "shard p2 joined; available shards: 3"}
    await world.put("secret", "p2", SECRETS, to="p2")
    await asyncio.sleep(35)  # until it was counted
    await world.puppets["p2"].release()
    news = await reader.news(4)
    assert news["ShardLeft"] == "shard p2 left; available shards: 2"
    assert set(news) == {"ShardLeft"}

    shard = world.puppets["p1"]
    shard.renews = False
    assert await reader.news(8) == {}, "it is late, which its state shows"
    shard.renews = True
    await asyncio.sleep(3)
    for number in range(2):
        await world.put(f"s{number}", "p1", SECRETS, to="p1")
    await asyncio.sleep(35)
    shard.kill()
    news = await reader.news(18)
    assert news["ShardLost"] == ("shard p1 lost: Lease expired or deleted; available shards: 1")
    assert set(news) == {"ShardLost"}
    labels = {"controllerring": "demo"}
    assert world.metric("handover_seconds_count", **labels, reason="lost") == 4
    assert world.metric("transitions_total", **labels, reason="ShardLost") == 1
    assert "p1" in str(world.replicas["r0"].replica.console.ring(RING))


@staged
async def test_a_deleted_lease_is_told_long_before_its_objects_are_taken(world: World) -> None:
    await world.begin("p0", "p1")
    reader = Reader(world)
    world.puppets["p1"].kill()
    await world.write("DELETE", f"{LEASE_PATH}/p1")
    assert await reader.news() == {
        "ShardMissing": "shard p1 missing: no held Lease, or another shard of the same "
        "name; might be working, so the objects stay"
    }
    assert set(await reader.news(40)) == {"ShardLost"}


@staged
async def test_the_shards_of_a_new_ring_are_told_though_its_status_is_written_first(
    world: World,
) -> None:
    await world.begin("p0")
    await world.write("DELETE", f"{RINGS_PATH}/{RING}")
    reader = Reader(world)
    await reader.news()
    await world.write("POST", RINGS_PATH, {"metadata": {"name": RING}, "spec": world.spec()})
    assert set(await reader.news()) == {"ShardJoined"}


@staged
async def test_what_a_user_does_is_shown_in_the_status_and_makes_no_event(world: World) -> None:
    await world.begin("p0", "p1")
    await world.put("secret", "p1", SECRETS)
    await asyncio.sleep(35)
    reader = Reader(world)
    await world.annotate_lease("p1", **{EVACUATE_ANNOTATION: "true"})
    await eventually(lambda: world.owner("secret", SECRETS) == "p0", within=10)
    await world.edit_ring(movement={"paused": True})
    assert await reader.news(4) == {}
    assert world.conditions()["Paused"] == "MovementPaused"
    shown = {each.name: each for each in world.status.shard_statuses}["p1"]
    assert (shown.evacuating, shown.objects) == (True, 0)


@staged
async def test_a_new_leader_repeats_nothing(world: World) -> None:
    first = await world.begin("p0", "p1")
    first.terminate()
    await asyncio.sleep(5)
    reader = Reader(world)
    world.start("r1")
    await eventually(lambda: world.replicas["r1"].leads, within=20)
    assert set(await reader.news(4)) == {"LeaderElection"}


def _uid(world: World, ring: str) -> dict[str, str]:
    return {"controllerring": ring, "uid": world.ring(ring).metadata.uid}


@pytest.mark.slow
@staged
async def test_gauges_show_rings_and_shards_as_they_are(world: World) -> None:
    await world.begin("p0", "p1")
    uid = _uid(world, "demo")
    first = {"namespace": "default", "shard": "p0", "controllerring": "demo"}
    assert world.metric("controllerring_status_shards", **uid) == 2
    assert world.metric("controllerring_metadata_generation", **uid) == 1
    assert world.metric("controllerring_observed_generation", **uid) == 1
    assert world.metric("shard_state", **first, state="ready") == 1
    assert world.metric("shard_state", **first, state="unknown") == 0
    assert world.metric("shard_state", **first, state="expired") == 0
    assert world.metric("leader") in {0, 1, None}
    built = world.metric("ring_calculations_total", controllerring="demo")
    await asyncio.sleep(20)
    assert world.metric("ring_calculations_total", controllerring="demo") == built
    world.join("p2")
    await asyncio.sleep(3)
    assert world.metric("ring_calculations_total", controllerring="demo") == (built or 0) + 1
    await world.patch(f"{LEASE_PATH}/p2", {"spec": {"leaseDurationSeconds": None}})
    world.puppets["p2"].kill()
    await asyncio.sleep(6)
    assert world.metric("invalid_leases", controllerring="demo") == 1
    assert world.metric("shard_state", **{**first, "shard": "p2"}, state="ready") is None
    world.puppets["p0"].kill()
    await eventually(lambda: world.metric("shard_state", **first, state="expired") == 1, within=12)
    await eventually(lambda: world.metric("shard_state", **first, state="dead") == 1, within=20)
    await eventually(
        lambda: world.metric("shard_state", **first, state="dead") is None, within=300
    )
    await world.write("DELETE", f"{RINGS_PATH}/demo")
    await asyncio.sleep(6)
    assert world.metric("controllerring_status_shards", **uid) is None
    assert world.metric("shard_state", **{**first, "shard": "p1"}, state="ready") is None
    assert world.metric("task_crashes_total", task="watches") in {0, None}


@staged
async def test_a_wrong_annotation_is_reported_once_and_again_when_it_comes_back(
    world: World,
) -> None:
    await world.begin("p0", placement={"strategy": "LeastLoaded"})
    await world.put("s", "p0", SECRETS, annotations={LOAD_ANNOTATION: "cpu=much"})
    await asyncio.sleep(5)
    for number in range(5):
        await world.annotate("s", {"number": str(number)}, SECRETS)
        await asyncio.sleep(1)
    await world.edit_ring(movement={"drainTimeout": "7m"})
    await asyncio.sleep(10)
    told = [message for name, message in world.events() if name == "s"]
    assert len(told) == 1
    assert LOAD_ANNOTATION in told[0]
    await world.annotate("s", {LOAD_ANNOTATION: "cpu=5"}, SECRETS)
    await asyncio.sleep(3)
    await world.annotate("s", {LOAD_ANNOTATION: "cpu=more"}, SECRETS)
    await asyncio.sleep(5)
    assert len([message for name, message in world.events() if name == "s"]) == 2


@pytest.mark.parametrize("strategy", ["ConsistentHash", "LeastLoaded"])
@staged
async def test_shards_are_described_with_loads_capacity_and_place(
    world: World, strategy: str
) -> None:
    await world.begin("p0", "p1", placement={"strategy": strategy, "useTopologyLabels": True})
    await world.annotate_lease("p0", **{CAPACITY_ANNOTATION: "objects=7,cpu=1500m"})
    await world.patch(f"{LEASE_PATH}/p0", {"metadata": {"labels": {ZONE_LABEL: "z1"}}})
    await world.put("s", "p0", SECRETS)
    await world.annotate_lease("p1", **{EVACUATE_ANNOTATION: "true"})
    await asyncio.sleep(40)
    shards = {each.name: each for each in world.status.shard_statuses}
    assert (shards["p0"].zone, shards["p0"].objects) == ("z1", 1)
    assert shards["p0"].capacity.get("cpu") in {"1500m", "1.5"}
    assert shards["p1"].evacuating
    shown = {"namespace": "default", "shard": "p0", "controllerring": "demo"}
    assert world.metric("shard_objects", **shown) == 1
    assert world.metric("shard_capacity", **shown) == 7
    assert world.metric("shard_capacity", **{**shown, "shard": "p1"}) is None
    world.start("r1")
    await asyncio.sleep(10)
    assert world.metric("shard_objects", "r1", **shown) is None, "only the leader counts"
    assert world.metric("shard_state", "r1", **shown, state="ready") == 1

"""A replica that does not lead hands over what was released, if the leader does not."""

import asyncio
import logging

import pytest

from sharder.core.api.meta import Json
from tests.replica.staged import staged
from tests.replica.world import CONFIGMAPS, DRAIN, NEXT, OWNER, PIN, SERIES, SITES, UNSEEN, World
from tests.stage.stage import eventually


async def without_leader(world: World, *shards: str, **spec: Json) -> None:
    """Let another client hold the leader's Lease while a replica stands by."""
    await world.set_up(world.spec(**spec))
    lease: Json = {
        "metadata": {"name": "sharder", "namespace": "sharding-system"},
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 3600},
    }
    path = "/apis/coordination.k8s.io/v1/namespaces/sharding-system/leases"
    await world.write("POST", path, lease)
    for name in shards:
        world.join(name).acknowledges = False
    world.has_webhook = False
    world.start()
    await asyncio.sleep(35)


async def drained(world: World, name: str, *, to: str = "p1") -> None:
    """Create a draining website with its child."""
    following: dict[str, Json] = {NEXT: to} if to else {}
    await world.put(name, "p0", draining=True, annotations=following)
    await world.put(f"{name}-c", "p0", CONFIGMAPS, of=name)


@staged
async def test_a_standby_hands_over_what_has_a_next_shard_and_nothing_else(world: World) -> None:
    await without_leader(world, "p0", "p1")
    for name, to in (("site", "p1"), ("no-next", ""), ("gone-next", "ghost"), ("busy", "p1")):
        await drained(world, name, to=to)
    await world.put("stranded", "ghost")
    await world.put("new", "")
    await world.put("wanted", "p0", to="p1")
    await world.put("lone", "", CONFIGMAPS)
    await world.put("moved", "ghost", CONFIGMAPS, of="site")
    await asyncio.sleep(5)
    assert world.written == []

    for name in ("site", "no-next", "gone-next"):
        await world.acknowledge(name)
    await asyncio.sleep(0.7)
    assert world.owner("site") == "", "the leader would be faster"
    await eventually(lambda: world.owner("site") == "p1", within=0.8)
    assert {each.name for each in world.written} == {"site", "site-c", "moved"}
    assert world.written[-1].name == "site"
    assert world.metric("movements_total", **SERIES) == 1
    await asyncio.sleep(60)
    assert len(world.written) == 3
    assert not world.replicas["r0"].leads


@staged
async def test_a_standby_takes_no_child_of_a_parent_that_the_leader_assigned_meanwhile(
    world: World,
) -> None:
    await without_leader(world, "p0", "p1")
    await drained(world, "site")
    world.before("GET", "configmaps", lambda: world.label("site", {OWNER: "p0"}))
    await world.acknowledge("site")
    await asyncio.sleep(10)
    assert world.owner("site") == "p0"
    assert world.written == []


@staged
async def test_a_standby_leaves_to_the_leader_what_that_does(world: World) -> None:
    await world.begin("p0", "p1")
    world.puppets["p0"].acknowledges = False
    world.has_webhook = False
    standby = world.start("r1")
    await asyncio.sleep(5)
    for number in range(5):
        await drained(world, f"s{number}")
        await world.label(f"s{number}", {PIN: "p1"})
    await asyncio.sleep(2)
    asked = standby.client.requests
    for number in range(5):
        await world.acknowledge(f"s{number}")
    await asyncio.sleep(10)
    assert set(world.owners().values()) == {"p1"}
    assert len(world.written) == 10
    assert standby.client.requests - asked <= 15  # its campaign for the Lease


@staged
async def test_a_standby_waits_while_another_replica_is_at_work(world: World) -> None:
    await without_leader(world, "p0", "p1")
    for number in range(8):
        await drained(world, f"s{number}")
    await asyncio.sleep(1)
    for number in range(8):
        await world.acknowledge(f"s{number}")
    for number in range(7):
        await asyncio.sleep(0.3)
        await world.label(f"s{number}-c", {OWNER: "p1"}, CONFIGMAPS)
        await world.label(f"s{number}", {OWNER: "p1"})
    assert world.written == []
    await eventually(lambda: world.owner("s7") == "p1", within=5)
    assert [each.name for each in world.written] == ["s7-c", "s7"]


@staged
async def test_a_standby_waits_while_objects_are_still_sent_but_not_for_long(world: World) -> None:
    await without_leader(world, "p0", "p1")
    for number in range(20):
        await drained(world, f"s{number:02}")
    await asyncio.sleep(1)
    for number in range(5):
        await world.acknowledge(f"s{number:02}")
        await asyncio.sleep(0.4)
    assert world.written == [], "another replica moves their children"
    await eventually(lambda: world.owner("s00") == "p1", within=1)
    written = len(world.written)
    await asyncio.sleep(5)
    for number in range(5, 20):
        await world.acknowledge(f"s{number:02}")
        await asyncio.sleep(0.4)
    assert len(world.written) > written, "nobody moves their children"


@staged
async def test_another_client_that_is_faster_wins_over_a_standby(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await without_leader(world, "p0", "p1")
    await drained(world, "site")
    await drained(world, "refused")
    end = world.refuse(403, "refused")
    world.before("PATCH", "site", lambda: world.label("site", {OWNER: "p0"}))
    with caplog.at_level(logging.INFO):
        await world.acknowledge("site")
        await eventually(lambda: world.owner("site-c", CONFIGMAPS) == "p0", within=10)
        await eventually(
            lambda: [e.owner for e in world.written if e.name == "site-c"][-1:] == ["p0"]
        )
    assert world.owner("site") == "p0"

    await world.acknowledge("refused")
    await asyncio.sleep(5)
    end()
    await world.label("refused", {OWNER: "ghost"})
    written = len(world.written)
    await asyncio.sleep(60)
    assert len(world.written) == written
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("is_seen", [True, False])
@staged
async def test_a_replica_stands_by_and_leads_by_what_it_saw(world: World, is_seen: bool) -> None:
    first = await world.begin("p0", "p1")
    second = world.start("r1")
    world.puppets["p0"].acknowledges = False
    world.has_webhook = False
    await asyncio.sleep(5)
    await drained(world, "site")
    await world.label("site", {PIN: "p1"})
    first.kill()
    await world.acknowledge("site")
    took = await eventually(lambda: world.owner("site") == "p1", within=2)
    await asyncio.sleep(3 - took)
    await world.put("sent", annotations={NEXT: "p1"})
    await asyncio.sleep(0.5)
    assert not second.leads
    lost = world.loop.time() - 0.5
    if not is_seen:
        second.link.stall("websites")
        for owner in ("p0", None):
            await world.label("sent", {OWNER: owner})
        lost = world.loop.time()
    await eventually(lambda: second.leads, within=lost + UNSEEN - 0.5 - world.loop.time())
    await eventually(lambda: world.owner("sent") == "p1", within=20)
    assert UNSEEN <= world.loop.time() - lost < UNSEEN + (0.7 if is_seen else 3)


@pytest.mark.parametrize("watches", [True, False])
@staged
async def test_what_lost_its_label_waits_for_its_last_shard_without_a_leader_too(
    world: World, watches: bool
) -> None:
    await without_leader(world, "p0", "p1")
    if not watches:
        world.forbid("watch", SITES)
    for name in ("lost", "drain-lost", "withdrawn", "between"):
        await world.put(name, "p0", draining=name != "lost", annotations={NEXT: "p1"})
    await asyncio.sleep(20)
    await world.label("withdrawn", {DRAIN: None})
    await asyncio.sleep(5)
    await world.acknowledge("between")
    await asyncio.sleep(0.6)
    for owner in ("p0", None):
        for name in world.owners():
            await world.label(name, {OWNER: owner})
    got, most = await world.waited(SITES, *world.owners()), UNSEEN + 0.6 if watches else 30
    assert all(UNSEEN - 0.05 <= seconds < most for seconds in got.values()), got


@staged
async def test_without_the_right_to_watch_a_standby_lists_often_while_drains_are_due(
    world: World,
) -> None:
    await without_leader(world, "p0", "p1")
    world.forbid("watch", SITES)
    await asyncio.sleep(60)
    quiet = len(world.requests("GET", "/websites"))
    await asyncio.sleep(60)
    assert len(world.requests("GET", "/websites")) - quiet <= 12
    await drained(world, "site")
    await asyncio.sleep(35)
    await world.acknowledge("site")
    await eventually(lambda: world.owner("site") == "p1", within=5)

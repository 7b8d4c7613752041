"""The leader shows the state of each shard on its Lease, takes those of the dead, and tidies."""

import asyncio

import pytest

from sharder.core.api.meta import Json
from sharder.core.names import (
    RING_LABEL,
    SHARDER_IDENTITY,
    STATE_LABEL,
    WEIGHT_ANNOTATION,
    ObjectRef,
)
from sharder.core.status.phases import ShardPhase, phase_of
from sharder.kube.typed_stores import LEASES
from tests.replica.staged import now, staged
from tests.replica.world import LEASE_PATH, SECONDS, SECRETS, World
from tests.stage.network import wall_time
from tests.stage.stage import RINGS_PATH, eventually

TWO: float = 2.0 * SECONDS


@staged
async def test_one_lease_that_cannot_be_written_keeps_no_other(world: World) -> None:
    await world.begin("p0", "p1", "p2")
    end = world.refuse(500, "p0", part="/leases/")
    for name in ("p0", "p1"):
        world.puppets[name].kill()
    await asyncio.sleep(TWO + 4)
    assert world.lease("p1").spec.holder_identity == SHARDER_IDENTITY
    assert world.lease("p0").spec.holder_identity == "p0"
    end()
    await eventually(lambda: world.lease("p0").spec.holder_identity == SHARDER_IDENTITY, within=60)


@staged
async def test_a_lease_that_etcd_has_lost_is_no_shard_though_the_watch_shows_it(
    world: World,
) -> None:
    await world.begin("p0", "p1")
    await world.put("site", "p0")
    world.puppets["p0"].kill()
    for objects in (world.storage.objects, world.servers[0].cached):
        del objects[LEASES.id][ObjectRef("default", "p0")]  # versions have caught up
    await eventually(lambda: world.owner("site") == "p1", within=TWO + 60)


@staged
async def test_leases_that_make_no_shard_are_reported_once_and_never_written(world: World) -> None:
    await world.begin("p0")
    long = "x" * 80
    held: dict[str, Json] = {
        "holderIdentity": long,
        "leaseDurationSeconds": SECONDS,
        "renewTime": now(),
        "acquireTime": now(),
    }
    await world.put_lease(long, held)
    await world.put_lease("no-duration", {**held, "holderIdentity": "no-duration"})
    body: Json = {"spec": {"leaseDurationSeconds": None}}
    await world.patch(f"{LEASE_PATH}/no-duration", body)
    foreign: Json = {"name": "stranger", "labels": {RING_LABEL: "none"}}
    spec: Json = {**held, "holderIdentity": "stranger"}
    await world.write("POST", LEASE_PATH, {"metadata": foreign, "spec": spec})
    written = len(world.requests("PATCH", "/leases/"))
    await asyncio.sleep(120)
    told = dict(world.events("InvalidLease"))
    assert "label value" in told[long]
    assert len(world.events("InvalidLease")) <= 3
    touched = {
        call.path.rpartition("/")[2] for call in world.requests("PATCH", "/leases/")[written:]
    }
    assert not touched & {long, "no-duration", "stranger"}
    assert world.metric("invalid_leases", controllerring="demo") == 2
    assert world.status.shards == 1
    shown = {"namespace": "default", "controllerring": "demo", "state": "ready"}
    assert world.metric("shard_state", **shown, shard="p0") == 1
    assert world.metric("shard_state", **shown, shard="no-duration") is None
    assert world.lease("stranger").spec.holder_identity == "stranger"


@staged
async def test_nonsense_that_a_shard_says_is_reported_and_ignored(world: World) -> None:
    await world.begin("p0")
    for weight in ("-1", "-1", None, "heavy"):
        await world.annotate_lease("p0", **{WEIGHT_ANNOTATION: weight})
        await asyncio.sleep(4)
    ignored = f"the annotation {WEIGHT_ANNOTATION} is ignored"
    hint = "is not a quantity such as 4, 500m or 8Gi"
    assert world.events("MalformedValue") == [
        ("p0", f"{ignored}: '-1' {hint}"),
        ("p0", f"{ignored}: 'heavy' {hint}"),
    ]
    assert world.state("p0") == "ready"
    assert world.status.available_shards == 1


@pytest.mark.parametrize("is_killed", [False, True])
@staged
async def test_each_version_of_a_lease_says_whether_its_shard_left_or_was_lost(
    world: World, is_killed: bool
) -> None:
    await world.begin("p0", "p1")
    for number in range(5):
        await world.put(f"s{number}", "p0", SECRETS)
    seen = set[ShardPhase]()
    if is_killed:
        world.puppets["p0"].kill()
    else:
        await world.puppets["p0"].release()
    for _ in range(300):
        await asyncio.sleep(0.05)
        lease = world.lease("p0")
        if lease.spec.holder_identity != "p0":
            seen.add(phase_of(lease, wall_time()))
    assert seen == {ShardPhase.LOST if is_killed else ShardPhase.LEFT}


@staged
async def test_a_shard_that_died_before_its_ring_was_made_is_found_out(world: World) -> None:
    await world.begin("p0")
    body: Json = {"metadata": {"labels": {RING_LABEL: "later"}}}
    await world.patch(f"{LEASE_PATH}/p0", body)
    world.puppets["p0"].kill()
    await asyncio.sleep(60)
    assert world.lease("p0").spec.holder_identity == "p0"
    await world.write("POST", RINGS_PATH, {"metadata": {"name": "later"}, "spec": world.spec()})
    await eventually(lambda: world.lease("p0").spec.holder_identity == SHARDER_IDENTITY, within=5)
    assert STATE_LABEL in (world.lease("p0").metadata.labels or {})

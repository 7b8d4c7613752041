"""One replica leads: it keeps configurations, conditions and status true, and ends cleanly."""

import asyncio

import pytest

from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json
from sharder.core.errors import LeaseLost
from sharder.core.names import APP_LABEL, RING_LABEL, ObjectRef
from sharder.kube.typed_stores import LEASES, MUTATING, VALIDATING
from sharder.runtime.lease_holder import LeaseHolder
from sharder.sdk.testing.requests import Call
from tests.replica.staged import staged
from tests.replica.world import OWNER, World
from tests.stage.stage import LEADER, RINGS_PATH, eventually

LEADER_PATH = "/apis/coordination.k8s.io/v1/namespaces/sharding-system/leases/sharder"
NAME = "controllerring-demo"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
VALIDATION = "controllerrings.sharding.timebertt.dev"
VALIDATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def names(world: World) -> list[str]:
    """Return the names of the webhook configurations."""
    return sorted(ref.name for ref in world.objects(MUTATING.id))


def versions(world: World) -> list[str]:
    """Return the versions of the configurations as they are stored."""
    found = [*world.objects(MUTATING.id).values(), *world.objects(VALIDATING.id).values()]
    return [each.as_(Lease).metadata.resource_version for each in found]


def reports(world: World) -> list[Call]:
    """Return the writes of the ring's status; a dry run proves the fence."""
    return [call for call in world.requests("PATCH", "/demo/status") if not call.dry_run]


def holder(world: World) -> str:
    """Return who holds the leader's Lease."""
    return world.objects(LEASES.id)[LEADER].as_(Lease).spec.holder_identity or ""


@pytest.mark.slow
@staged
async def test_configurations_are_there_with_their_rings_and_repaired(world: World) -> None:
    await world.set_up(world.spec())
    other: Json = {"metadata": {"name": "others", "labels": {RING_LABEL: "gone"}}}
    await world.write("POST", CONFIGURATIONS, other)
    ours = {RING_LABEL: "gone", APP_LABEL[0]: APP_LABEL[1]}
    unled: Json = {"metadata": {"name": "deleted-while-nobody-led", "labels": ours}}
    await world.write("POST", CONFIGURATIONS, unled)
    world.join("p0")
    world.start()
    await asyncio.sleep(30)
    assert names(world) == [NAME, "others"]
    assert [ref.name for ref in world.objects(VALIDATING.id)] == [VALIDATION]
    before = versions(world)
    await asyncio.sleep(400)
    assert versions(world) == before, "nothing happens"

    await world.write("DELETE", f"{CONFIGURATIONS}/{NAME}")
    await world.write("DELETE", f"{VALIDATIONS}/{VALIDATION}")
    await eventually(lambda: NAME in names(world), within=31)
    await eventually(lambda: world.objects(VALIDATING.id), within=31)
    for number in range(2):
        await world.patch(f"{CONFIGURATIONS}/{NAME}", {"webhooks": []})
        await asyncio.sleep(31)
        stored = world.objects(MUTATING.id)[ObjectRef("", NAME)]
        assert stored.tree["webhooks"], number
    for number in range(6):
        await world.patch(
            f"{CONFIGURATIONS}/{NAME}", {"metadata": {"annotations": {"n": str(number)}}}
        )
        await asyncio.sleep(31)
    assert len(world.events("WebhookContested")) == 1

    await world.edit_ring(namespaceSelector={"matchLabels": {"team": "blue"}})
    await asyncio.sleep(3)
    assert "blue" in str(world.objects(MUTATING.id)[ObjectRef("", NAME)].tree)
    await world.write("DELETE", f"{RINGS_PATH}/demo")
    await eventually(lambda: names(world) == ["others"], within=2)


@staged
async def test_a_configuration_that_cannot_be_kept_is_said_until_it_can(world: World) -> None:
    await world.begin("p0")
    end = world.refuse(403, NAME, message="no right")
    await world.edit_ring(namespaceSelector={"matchLabels": {"team": "blue"}})
    await eventually(lambda: world.conditions()["Ready"] == "ReconciliationFailed", within=10)
    assert "no right" in world.message()
    end()
    await eventually(lambda: world.conditions()["Ready"] == "ReconciliationSucceeded", within=320)


@staged
async def test_a_new_ring_has_its_configuration_while_its_events_hang(world: World) -> None:
    await world.begin("p0")
    await world.write("DELETE", f"{RINGS_PATH}/demo")
    await eventually(lambda: not names(world), within=2)

    async def hang(call: Call) -> None:
        await asyncio.sleep(9 * call.path.endswith("/events"))

    world.intercept(hang)
    await world.write("POST", RINGS_PATH, {"metadata": {"name": "demo"}, "spec": world.spec()})
    await eventually(lambda: names(world) == [NAME], within=2)


@staged
async def test_rings_that_cannot_work_are_not_ready_and_say_why(world: World) -> None:
    await world.begin("p0")
    both: Json = [
        {"resource": "secrets"},
        {"resource": "pods", "controlledResources": [{"resource": "secrets"}]},
    ]
    leases: Json = [{"group": "coordination.k8s.io", "resource": "leases"}]
    broken: Json = {"metadata": {"name": "broken"}, "spec": {"placement": {"strategy": "NotYet"}}}
    with world.unreviewed():
        for name, resources in (("both", both), ("leases", leases)):
            spec: Json = {"resources": resources}
            await world.write("POST", RINGS_PATH, {"metadata": {"name": name}, "spec": spec})
        await world.write("POST", RINGS_PATH, broken)
    await asyncio.sleep(5)
    assert world.conditions("both")["Ready"] == "InvalidSpec"
    assert 'Duplicate value: "secrets"' in world.message(name="both")
    assert world.conditions("leases")["Ready"] == "InvalidSpec"
    assert "never sharded" in world.message(name="leases")
    told = [message for name, message in world.events("ReconciliationFailed") if name == "broken"]
    assert "cannot decode the ring" in told[0]
    assert len(told) == 1
    assert world.metric("controllerring_unreadable", controllerring="broken") == 1
    assert world.conditions()["Ready"] == "ReconciliationSucceeded", "only its own ring"
    one: Json = [{"group": "", "resource": "secrets"}]
    with world.unreviewed():
        await world.edit_ring("both", resources=one)
        await world.edit_ring("broken", placement=None, resources=one)
    await asyncio.sleep(5)
    assert world.conditions("both")["Ready"] == "ReconciliationSucceeded"
    assert world.conditions("broken")["Ready"] == "ReconciliationSucceeded"
    assert world.metric("controllerring_unreadable", controllerring="broken") is None

    # A later version wrote what we cannot read: the ring goes on as it was.
    with world.unreviewed():
        await world.edit_ring(placement={"strategy": "NotYet"})
    await world.put("site")
    await eventually(lambda: world.owner("site") == "p0", within=5)
    assert NAME in names(world)

    held: dict[str, Json] = {"holderIdentity": "p0", "leaseDurationSeconds": 60}
    with world.unreviewed():
        await world.edit_ring(placement=None, shardNamespaces=["default", "kube-system"])
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    lease: Json = {"metadata": {"name": "p0", "labels": {RING_LABEL: "demo"}}, "spec": held}
    await world.write("POST", path, lease)
    await world.patch(f"{path}/p0", {"spec": {"renewTime": world.lease("p0").spec.renew_time}})
    await eventually(lambda: world.conditions()["Ready"] == "DuplicateShardNames", within=10)


@pytest.mark.slow
@staged
async def test_the_status_is_written_when_it_changes_and_counts_now_and_then(world: World) -> None:
    await world.begin("p0", "p1")
    world.has_webhook = False
    for number in range(3):
        await world.put(f"s{number}", "p0", to="p0")
    await asyncio.sleep(40)
    status = world.status
    assert (status.objects, status.assigned, status.unassigned, status.draining) == (3, 3, 0, 0)
    assert {(s.name, s.state, s.objects) for s in status.shard_statuses} == {
        ("p0", "ready", 3),
        ("p1", "ready", 0),
    }
    writes = len(reports(world))
    lists = len(world.requests("GET", "/websites"))
    await asyncio.sleep(120)
    assert len(reports(world)) - writes <= 1, "a quiet ring"
    assert len(world.requests("GET", "/websites")) - lists <= 20

    await world.label("s0", {OWNER: "p1"})
    await world.delete("s1")
    for number in range(2):
        await world.put(f"new{number}", "p0", to="p0")
    await asyncio.sleep(33)
    assert world.status.objects == 4
    assert [(s.name, s.objects) for s in world.status.shard_statuses] == [("p0", 3), ("p1", 1)]
    assert world.metric("controllerring_objects", controllerring="demo") == 4

    await world.puppets["p1"].release()
    await eventually(lambda: world.status.available_shards == 1, within=1.5)
    await eventually(lambda: world.owner("s0") == "p0", within=3)
    await eventually(
        lambda: {s.name: s.objects for s in world.status.shard_statuses}.get("p0") == 4, within=6
    )
    times = {each.type: each.last_transition_time for each in world.status.conditions}
    await world.edit_ring(movement={"drainTimeout": "7m"})
    await asyncio.sleep(5)
    assert {each.type: each.last_transition_time for each in world.status.conditions} == times
    assert world.status.observed_generation == world.ring().metadata.generation

    await world.puppets["p0"].release()
    await eventually(lambda: world.conditions()["Covered"] == "NoShards", within=3)
    labels = {"controllerring": "demo", "condition": "Covered", "status": "False"}
    await eventually(lambda: world.metric("controllerring_condition", **labels) == 1, within=6)


@staged
async def test_a_leader_that_sees_another_holder_stops_and_campaigns_again(world: World) -> None:
    replica = await world.begin("p0")
    world.has_webhook = False
    path = LEADER_PATH
    await world.patch(path, {"spec": {"holderIdentity": "other", "leaseDurationSeconds": 15}})
    await asyncio.sleep(3)
    assert not replica.leads
    before = world.conditions()
    await world.put("site")
    world.join("p1")
    await asyncio.sleep(8)
    assert world.owner("site") == ""
    assert world.written == []
    await eventually(lambda: replica.leads, within=30)
    await eventually(lambda: world.owner("site"), within=10)
    await world.patch(path, {"spec": {"holderIdentity": "other"}})
    await asyncio.sleep(3)
    replica.terminate()
    await asyncio.sleep(5)
    assert set(world.conditions()) == set(before)


@staged
async def test_a_leader_that_loses_its_lease_while_it_stops_ends(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = LeaseHolder.keep

    async def lose(holder: LeaseHolder) -> None:
        try:
            await keep(holder)
        except asyncio.CancelledError as stopped:
            raise LeaseLost("now held by another") from stopped

    monkeypatch.setattr(LeaseHolder, "keep", lose)
    replica = await world.begin("p0")
    replica.terminate()
    await eventually(lambda: replica.has_ended, within=10)


@staged
async def test_a_replica_that_was_paused_does_not_act_on_what_it_knew(world: World) -> None:
    replica = await world.begin("p0")
    world.has_webhook = False
    replica.pause()
    await asyncio.sleep(60)
    await world.put("site")
    await world.write("DELETE", f"{CONFIGURATIONS}/{NAME}")
    calls = len(world.calls)
    replica.resume()
    await asyncio.sleep(0.3)
    writes = [call.path for call in world.calls[calls:] if call.method != "GET"]
    assert writes[:1] in ([], [LEADER_PATH]), "first it leads again"
    await eventually(lambda: world.owner("site") == "p0", within=30)

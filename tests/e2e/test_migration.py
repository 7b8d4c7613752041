"""One sharder is stopped and the other started: no object moves, and none is written.

First from kubernetes-controller-sharding to ours, then back, then again to ours, this time in the
middle of a move.  The shards are the example's, and go on all the while.
"""

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

import pytest

from hack.audit_log import AuditLog, Event
from hack.control_plane import ControlPlane
from hack.ownership import Observer, Ownership, observing
from hack.playground import NAMESPACE, RING, SHARDS, SYSTEM, Playground
from sharder.core.api.meta import Json, PartialObject
from sharder.core.keys import main_key
from sharder.core.names import RING_LABEL, ObjectRef, RingName
from sharder.kube.client import Client, connect
from sharder.kube.errors import decode_as
from sharder.kube.typed_stores import leases, rings
from tests.e2e.reference_stand_in import CONFIGURATION, OWNER, SECRETS, STATE, Reference, owner_of
from tests.history.departures import by_uid
from tests.history.etcd import APISERVER_FLAGS
from tests.history.judging import judge
from tests.history.recording import Recording, recording
from tests.support.eventually import eventually
from tests.support.figures import show

LIVE = {"shard-0", "shard-1"}
JOINING, DEAD = "shard-2", "shard-9"
OBJECTS = 300
BEGUN = 20
"""Drains that one sharder has begun and the other ends."""
SHARDER = f"system:serviceaccount:{SYSTEM}:sharder"
WRITES: Json = ["create", "update", "patch", "delete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What two sharders have to agree on."""

    owners: Mapping[str, str]
    """Of Secrets and their ConfigMaps, by uid; likewise the next."""
    versions: Mapping[str, str]
    states: Mapping[str, str]
    """What is written of the shards' Leases, by name."""
    webhook: list[object]
    """The ring's configuration, without the authority that is trusted."""


@dataclass(slots=True)
class Migration:
    """What was seen on the whole way."""

    old: Sight
    """The reference has stopped."""
    ours: Sight
    """Ours has looked at every object, and has stopped."""
    back: Sight
    """The reference has registered again."""
    seconds: float
    """From the start of ours until it has looked at every object."""
    written: set[tuple[str, str]]
    """What ours has written until then, each by its resource and namespace."""
    born: Mapping[str, str] = field(default_factory=dict)
    """Owners of Secrets that were created while ours ran, by name."""
    trace: Recording = field(default_factory=lambda: Recording(RingName(RING), NAMESPACE))
    """Of the last change, which comes in the middle of a move."""


@pytest.fixture(scope="module")
def migration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Migration]:
    log = AuditLog(
        tmp_path_factory.mktemp("audit"),
        {"level": "Metadata", "users": [SHARDER], "verbs": WRITES},
    )
    with ControlPlane(apiserver_flags=(*APISERVER_FLAGS, *log.flags)) as plane:
        playground = Playground(plane)
        playground.install()
        yield asyncio.run(_tell(playground, log))


def test_no_object_moves(migration: Migration, capsys: pytest.CaptureFixture[str]) -> None:
    show(capsys, f"{len(migration.old.owners)} objects taken over in {migration.seconds:.1f} s")

    assert migration.ours.owners == migration.old.owners
    assert len(migration.old.owners) == 2 * OBJECTS


def test_no_object_is_written(migration: Migration) -> None:
    assert migration.ours.versions == migration.old.versions
    assert [each for each in migration.written if each[1] in {NAMESPACE, SHARDS}] == []
    assert ("controllerrings", "") in migration.written


def test_both_controllers_report_the_same_shards(migration: Migration) -> None:
    assert migration.old.states == {**dict.fromkeys(LIVE, "ready"), DEAD: "dead"}
    assert migration.ours.states == migration.old.states


def test_the_webhook_is_ours_and_nothing_of_the_others_is_left_in_it(migration: Migration) -> None:
    theirs = ('"service": {', "cert-manager.io/")
    before, after = json.dumps(migration.old.webhook), json.dumps(migration.ours.webhook)

    assert [what for what in theirs if what not in before or what in after] == []


def test_new_objects_are_created_where_the_other_controller_would_have_put_them(
    migration: Migration,
) -> None:
    keys = {name: f"/Secret/{NAMESPACE}/{name}" for name in migration.born}
    wanted = {name: owner_of(key, LIVE) for name, key in keys.items()}

    assert migration.born == wanted
    assert len(migration.born) > 1


def test_on_the_way_back_the_webhook_is_what_it_was(migration: Migration) -> None:
    assert migration.back.webhook == migration.old.webhook


def test_on_the_way_back_no_label_of_a_shard_or_object_is_another(migration: Migration) -> None:
    assert migration.back.owners.items() >= migration.old.owners.items()
    assert migration.back.states == migration.old.states


def test_a_move_that_one_begins_is_ended_by_the_other_and_no_object_moves_without_a_drain(
    migration: Migration,
) -> None:
    assert len(migration.trace.drained_after(0)) > BEGUN
    assert judge(migration.trace.trace()).unacknowledged == []
    assert list(_returns(migration.trace)) == []


async def _tell(playground: Playground, log: AuditLog) -> Migration:
    client = await connect(str(playground.plane.admin_kubeconfig))
    try:
        reference = Reference(client)
        async with observing(playground.author) as (observer, _):
            await _begin(playground, reference, observer)
            migration = await _there_and_back(playground, reference, observer, log)
            async with recording(playground.plane.etcd_url) as trace:
                await _change_in_the_middle(playground, reference, observer, trace)
            migration.trace = trace
    finally:
        await client.close()
    return migration


async def _begin(playground: Playground, reference: Reference, observer: Observer) -> None:
    """Let the reference run a ring with two shards, and one that has died."""
    await reference.lead()
    await reference.register()
    await reference.inject_authority()
    for shard in LIVE:
        playground.start_shard(shard)
    await eventually(lambda: _are_live(observer, LIVE), within=60)
    for shard in LIVE:
        await _mark(reference, shard)
    for index in range(OBJECTS):
        await reference.admit(f"secret-{index:04}", LIVE)
    await observer.settled(LIVE, within=120)
    # Last: 90 s later it is deleted.
    await reference.delete_lease(DEAD)
    await reference.report(shards=len(LIVE) + 1, available=len(LIVE))


async def _there_and_back(
    playground: Playground, reference: Reference, observer: Observer, log: AuditLog
) -> Migration:
    client = reference.client
    await reference.resign()
    old, began = await _look(observer, client), time.monotonic()
    playground.start_sharder(gracefulShutDown="0s")
    await eventually(lambda: _has_resynced(client), within=90)
    seconds = time.monotonic() - began
    # Time for what would be written late: orphans, drains, a second pass.
    await asyncio.sleep(5)
    ours, written = await _look(observer, client), _written(log)
    born = {name: await _born(client, name) for name in map("born-{}".format, range(10))}
    await asyncio.to_thread(playground.stop, "sharder-0")
    await reference.register()
    await reference.inject_authority()
    back = await _look(observer, client)
    return Migration(old=old, ours=ours, back=back, seconds=seconds, written=written, born=born)


async def _born(client: Client, name: str) -> str:
    """Create a Secret and return the owner that it was admitted with."""
    answer = await client.request("POST", SECRETS, body={"metadata": {"name": name}})
    return decode_as(answer, PartialObject, SECRETS).metadata.label(OWNER)


async def _change_in_the_middle(
    playground: Playground, reference: Reference, observer: Observer, trace: Recording
) -> None:
    """Let the reference begin to move objects to a new shard, and ours do the rest."""
    live, before = LIVE | {JOINING}, await observer.look()
    await eventually(lambda: _knows(trace, before), within=30)
    playground.start_shard(JOINING)
    await eventually(lambda: _are_live(observer, live), within=60)
    await _mark(reference, JOINING)
    secrets = (await observer.look()).secrets.values()
    moving = [s for s in secrets if owner_of(main_key(s), live) == JOINING]
    for secret in moving[:BEGUN]:
        await reference.drain(secret)
    playground.start_sharder(gracefulShutDown="0s")
    now, _ = await observer.settled(live, within=120)
    await eventually(lambda: _knows(trace, now), within=30)


async def _mark(reference: Reference, shard: str) -> None:
    """Write that a shard is ready, and try again where it has just renewed its Lease."""

    async def mark() -> None:
        lease = await leases(reference.client).get(ObjectRef(SHARDS, shard))
        await reference.mark(lease, "ready")

    await eventually(mark, within=10)


async def _look(observer: Observer, client: Client) -> Sight:
    now = await observer.look()
    checksums = (checksum for each in now.checksums.values() for checksum in each)
    objects = [*now.secrets.values(), *checksums]
    shards = (await leases(client, namespace=SHARDS, labels=RING_LABEL).list()).items
    found = json.loads(await client.request("GET", CONFIGURATION))
    kept = ("labels", "annotations", "ownerReferences")
    for webhook in found["webhooks"]:
        webhook["clientConfig"].pop("caBundle", None)
    return Sight(
        owners={each.metadata.uid: each.metadata.label(OWNER) for each in objects},
        versions={each.metadata.uid: each.metadata.resource_version for each in objects},
        states={shard.metadata.name: shard.metadata.label(STATE) for shard in shards},
        webhook=[{key: found["metadata"].get(key) for key in kept}, *found["webhooks"]],
    )


async def _are_live(observer: Observer, shards: set[str]) -> bool:
    return (await observer.look()).live == shards


async def _has_resynced(client: Client) -> bool:
    ring = await rings(client).get(ObjectRef("", RING))
    return ring.status.last_resync is not None


async def _knows(trace: Recording, now: Ownership) -> bool:
    seen = {each.uid: each.owner for each in trace.last()}
    return all(seen.get(uid) == now.owner(uid) for uid in now.secrets)


def _written(log: AuditLog) -> set[tuple[str, str]]:
    """Return the resource and the namespace of each write in an audit log."""
    refs = [write.object_ref for write in log.events(Event)]
    return {(ref.resource, ref.namespace) for ref in refs}


def _returns(trace: Recording) -> Iterator[str]:
    """Yield what was sent one way and then back, or asked to move twice."""
    for states in by_uid(trace.writes).values():
        owners = [owner for owner, _ in groupby(w.owner for w in states if w.owner)]
        drains = [draining for draining, _ in groupby(w.draining for w in states)]
        if len(set(owners)) < len(owners) or drains.count(True) > 1:
            yield f"{states[-1].name}: {owners}, {drains}"

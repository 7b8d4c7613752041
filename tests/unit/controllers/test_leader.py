"""Facts about who leads, and what the leader brings about with all controllers together."""

import asyncio
from asyncio import TaskGroup
from collections import Counter

import pytest
from msgspec import structs

from sharder.controllers.leader import AlwaysLeader
from sharder.controllers.leader_controllers import APPLY_SECONDS, REGISTRATION_SECONDS
from sharder.controllers.movement.waiting.orphans import UNSEEN_SECONDS
from sharder.core.api.meta import Json, PartialObject
from sharder.core.api.ring import ControllerRing, MovementSpec, PlacementSpec, StrategyName
from sharder.core.errors import Forbidden, NotFound, Rejected, Unavailable
from sharder.core.names import (
    APP_LABEL,
    EVACUATE_ANNOTATION,
    RING_LABEL,
    SHARDER_IDENTITY,
    STATE_LABEL,
    VALIDATION_NAME,
    ZONE_LABEL,
    GroupResource,
    ObjectRef,
    RingName,
    ShardName,
)
from sharder.core.status.phases import ShardPhase, phase_of
from sharder.runtime.lease_lock import LeaseHolder
from sharder.runtime.reflector import POLL_SECONDS
from tests.support.cluster import Cluster
from tests.support.counting import counted
from tests.support.hooked_objects import on, raising
from tests.support.replica import AT_ONCE, LEADER, SYNC_PERIOD, Replica
from tests.support.values import (
    CONFIGMAPS,
    DEMO,
    DRAIN,
    NEXT,
    OWNER,
    SECRETS,
    WIDGETS,
    A,
    B,
    C,
    named,
    ring,
)


def is_drained(obj: PartialObject) -> bool:
    return DRAIN in (obj.metadata.labels or {})


async def holder_of(cluster: Cluster, shard: ShardName) -> str:
    lease = await cluster.leases.get(ObjectRef("default", shard))
    return lease.spec.holder_identity or ""


async def test_the_leader_looks_after_rings_leases_and_objects() -> None:
    cluster = Cluster()
    service = Replica(cluster)

    async with cluster.watched(A), service.running():
        await cluster.add(WIDGETS, "w")
        owner = await cluster.add(SECRETS, "s")
        await cluster.add(CONFIGMAPS, "c", controlled_by=owner)
        await cluster.put_ring(ring(generation=2))
        await cluster.renew(A)
        await cluster.clock.advance(AT_ONCE)

        ready = await service.ready()
        lease = await cluster.leases.get(ObjectRef("default", A))

    assert service.changes == [True, False]
    assert ready is not None
    assert (ready.status, ready.observed_generation) == ("True", 2)
    assert lease.metadata.label(STATE_LABEL) == "ready"
    assert list(service.configurations.bodies) == ["controllerring-demo"]
    assert list(service.validations.bodies) == [VALIDATION_NAME]
    for resource in (WIDGETS, SECRETS, CONFIGMAPS):
        assert set((await cluster.owners(resource)).values()) == {A}


async def test_the_objects_of_a_silent_shard_move_and_those_of_others_stay() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B), Replica(cluster).running():
        for number in range(20):
            name = f"s{number}"
            owner = await cluster.add(
                SECRETS, name, owner=cluster.snapshot.wanted(f"/Secret/default/{name}")
            )
            mine = (await cluster.store(SECRETS).get(owner.metadata.ref)).metadata.label
            await cluster.add(
                CONFIGMAPS,
                f"c{number}",
                owner=mine("shard.alpha.sharding.timebertt.dev/demo"),
                controlled_by=owner,
            )
        before = await cluster.owners(SECRETS)
        for _ in range(16):
            await cluster.renew(B)
            await cluster.clock.advance(2)
        await cluster.settle()

        assert set(before.values()) == {A, B}
        assert await holder_of(cluster, A) == SHARDER_IDENTITY
        assert await holder_of(cluster, B) == B
        assert set((await cluster.owners(SECRETS)).values()) == {B}
        assert set((await cluster.owners(CONFIGMAPS)).values()) == {B}
        moved = sum(owner == A for owner in before.values())
        assert (cluster.metrics.moves, cluster.metrics.drains) == (2 * moved, 0)


async def test_a_shard_that_falls_silent_after_renewals_is_taken_after_two_durations() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B), Replica(cluster).running():
        for _ in range(20):
            await cluster.renew(A)
            await cluster.renew(B)
            await cluster.clock.advance(2)
        holders = list[str]()
        for _ in range(15):
            await cluster.renew(B)
            holders.append(await holder_of(cluster, A))
            await cluster.clock.advance(2)

    # The last renewal of A was two seconds before the first look.
    assert holders == [A] * 14 + [SHARDER_IDENTITY]


async def test_the_leader_counts_each_object_once_while_a_shard_is_evacuated() -> None:
    cluster = Cluster()
    totals, wrong = set[int](), list[tuple[Counter[str], Counter[str]]]()

    async with cluster.watched(A, B, seconds=3600), Replica(cluster).running():
        for number in range(20):
            shard = A if number % 2 else B
            parent = await cluster.add(SECRETS, f"s{number}", owner=shard)
            await cluster.add(CONFIGMAPS, f"c{number}", owner=shard, controlled_by=parent)
        await cluster.clock.advance(70)
        annotations = {EVACUATE_ANNOTATION: "true"}
        await cluster.leases.patch(
            ObjectRef("default", A), {"metadata": {"annotations": annotations}}
        )
        for _ in range(50):
            await cluster.clock.advance(0.01)
            draining = [o for o in (await cluster.store(SECRETS).list()).items if is_drained(o)]
            for obj in draining[:1]:
                await cluster.acknowledge(obj, SECRETS)
            await cluster.settle()
            stats = cluster.journal.counts and cluster.journal.counts(DEMO)
            assert stats is not None
            totals.add(stats.objects)
            true = Counter(shard.strip("*") for shard in (await cluster.owners(SECRETS)).values())
            shown = Counter[str](stats.by_shard) + Counter({"": stats.unassigned})
            wrong += [(shown, true)] if shown != true else []

    assert (totals, wrong) == ({20}, [])


@pytest.mark.parametrize("is_killed", [False, True])
async def test_each_version_of_a_lease_says_whether_its_shard_left_or_was_lost(
    is_killed: bool,
) -> None:
    cluster = Cluster()
    seen = set[ShardPhase]()

    async with cluster.watched(A, B), Replica(cluster).running():
        for number in range(20):
            await cluster.add(SECRETS, f"s{number}", owner=A)
        if not is_killed:
            await cluster.leave(A)
        for _ in range(700):
            await cluster.renew(B)
            await cluster.clock.advance(0.05)
            lease = await cluster.leases.get(ObjectRef("default", A))
            if lease.spec.holder_identity != A:
                seen.add(phase_of(lease, cluster.clock.now()))

        assert set((await cluster.owners(SECRETS)).values()) == {B}

    assert seen == {ShardPhase.LOST if is_killed else ShardPhase.LEFT}


async def test_objects_move_to_a_shard_that_joins_once_they_are_released() -> None:
    cluster = Cluster()

    async with cluster.watched(A), Replica(cluster).running():
        for number in range(20):
            owner = await cluster.add(SECRETS, f"s{number}", owner=A)
            await cluster.add(CONFIGMAPS, f"c{number}", owner=A, controlled_by=owner)
        await cluster.join(B)
        await cluster.clock.advance(AT_ONCE)
        draining = {n for n, owner in (await cluster.owners(SECRETS)).items() if "*" in owner}
        children = set((await cluster.owners(CONFIGMAPS)).values())
        for obj in (await cluster.store(SECRETS).list()).items:
            if obj.metadata.name in draining:
                await cluster.acknowledge(obj, SECRETS)
        await cluster.clock.advance(AT_ONCE)
        await cluster.settle()
        secrets, maps = await cluster.owners(SECRETS), await cluster.owners(CONFIGMAPS)

    assert 0 < len(draining) < 20
    assert children == {A}
    assert {name for name, owner in secrets.items() if owner == B} == draining
    assert {name: maps[f"c{name[1:]}"] for name in secrets} == secrets


@pytest.mark.parametrize("strategy", [StrategyName.CONSISTENT_HASH, StrategyName.LEAST_LOADED])
async def test_objects_that_lost_their_controller_are_counted_until_they_are_gone(
    strategy: StrategyName,
) -> None:
    spec = structs.replace(ring().spec, placement=PlacementSpec(strategy=strategy))
    cluster = Cluster(ControllerRing(metadata=ring().metadata, spec=spec))

    async with counted(cluster, A, B):
        parent = await cluster.add(SECRETS, "s", owner=A)
        await cluster.add(CONFIGMAPS, "child", owner=A, controlled_by=parent)
        restored = [await cluster.add(CONFIGMAPS, f"restored-{n}") for n in range(3)]
        async with Replica(cluster).running():
            await cluster.clock.advance(60)
            status = (await cluster.rings.get(ObjectRef("", DEMO))).status
            for obj in restored:
                await cluster.delete(obj, CONFIGMAPS)
            await cluster.clock.advance(SYNC_PERIOD + 60)
            after = (await cluster.rings.get(ObjectRef("", DEMO))).status

    assert (status.uncontrolled, status.objects) == (3, 1)
    assert after.uncontrolled == 0


async def test_an_object_that_asks_for_another_zone_later_moves_there_with_what_it_controls() -> (
    None
):
    placement = PlacementSpec(strategy=StrategyName.LEAST_LOADED, use_topology_labels=True)
    spec = structs.replace(ring().spec, placement=placement)
    cluster = Cluster(ControllerRing(metadata=ring().metadata, spec=spec))

    async with counted(cluster, A, B):
        for shard, zone in ((A, "1"), (B, "2")):
            zoned: Json = {"metadata": {"labels": {ZONE_LABEL: zone}}}
            await cluster.leases.patch(ObjectRef("default", shard), zoned)
        parent = await cluster.add(SECRETS, "s", owner=A)
        await cluster.add(CONFIGMAPS, "child", owner=A, controlled_by=parent)
        async with Replica(cluster).running():
            await cluster.clock.advance(60)
            before = await cluster.owners(SECRETS)
            await cluster.label(parent, SECRETS, **{ZONE_LABEL: "2"})
            await cluster.clock.advance(SYNC_PERIOD)
            asked = await cluster.owners(SECRETS)
            await cluster.acknowledge(parent, SECRETS)
            await cluster.clock.advance(60)

    assert (before, asked) == ({"s": A}, {"s": f"{A}*"})
    assert (await cluster.owners(SECRETS), await cluster.owners(CONFIGMAPS)) == (
        {"s": B},
        {"child": B},
    )


@pytest.mark.parametrize(
    ("resource", "left"),
    [
        (SECRETS, {"annotations": {NEXT: None}}),
        (WIDGETS, {"generation": 2}),
        (WIDGETS, {"annotations": {"example.com/touched": "yes"}}),
    ],
    ids=["replaced", "another spec", "another annotation"],
)
async def test_without_a_webhook_a_draining_object_that_loses_more_than_its_labels_waits(
    resource: GroupResource, left: dict[str, Json]
) -> None:
    # A user has replaced it, and its shard works on.
    cluster = Cluster()

    async with cluster.watched(A, B):
        name = named(resource, B, cluster.snapshot)
        obj = await cluster.add(resource, name, owner=A)
        await cluster.clock.advance(UNSEEN_SECONDS)
        async with Replica(cluster).running():
            asked = await cluster.owners(resource)
            body: Json = {"metadata": {"labels": {OWNER: None, DRAIN: None}, **left}}
            await cluster.store(resource).patch(obj.metadata.ref, body)
            await cluster.clock.advance(UNSEEN_SECONDS - AT_ONCE)
            before = await cluster.owners(resource)
            await cluster.clock.advance(1)

    assert asked == {name: f"{A}*"}
    assert before == {name: ""}
    assert await cluster.owners(resource) == {name: B}


@pytest.mark.parametrize(
    ("text", "minutes", "reason"),
    [(None, 4, "AllOwned"), (None, 6, "DrainOverdue"), ("0s", 8, "AllOwned")],
)
async def test_a_drain_that_takes_longer_than_five_minutes_is_reported_unless_switched_off(
    text: str | None, minutes: int, reason: str
) -> None:
    movement = MovementSpec() if text is None else MovementSpec(drain_timeout=text)
    spec = structs.replace(ring().spec, movement=movement)
    cluster = Cluster(ControllerRing(metadata=ring().metadata, spec=spec))
    replica = Replica(cluster)

    async with cluster.watched(A, B, seconds=3600):
        name = named(SECRETS, B, cluster.snapshot)
        await cluster.add(SECRETS, name, owner=A)
        async with replica.running():
            await cluster.clock.advance(60 * minutes)
            conditions = await replica.conditions()

    assert await cluster.owners(SECRETS) == {name: f"{A}*"}
    assert conditions["Covered"] == reason


async def test_a_leader_that_sees_another_holder_writes_nothing_more_and_campaigns_again() -> None:
    cluster = Cluster()
    service = Replica(cluster)

    async with cluster.watched(A), service.running():
        body: Json = {"spec": {"holderIdentity": "other", "leaseDurationSeconds": 15}}
        await cluster.leases.patch(LEADER, body)
        await cluster.clock.advance(3)
        lost = list(service.changes)
        await cluster.add(WIDGETS, "w")
        await cluster.join(B)
        await cluster.clock.advance(5)
        meanwhile = await cluster.owners(WIDGETS)
        await cluster.clock.advance(20)

        assert lost == [True, False]
        assert meanwhile == {"w": ""}
        assert service.changes == [True, False, True]
        assert (await cluster.owners(WIDGETS))["w"] in {A, B}


async def test_a_process_that_was_paused_does_not_act_on_what_it_knew_before() -> None:
    cluster = Cluster()
    service = Replica(cluster)

    async with cluster.watched(A), service.running():
        lease = (await cluster.leases.get(ObjectRef("default", A))).metadata.resource_version
        ring_before = (await cluster.rings.get(ObjectRef("", DEMO))).status
        service.configurations.bodies.clear()
        await cluster.add(WIDGETS, "w")
        cluster.clock._elapsed += 60  # nothing ran
        await cluster.put_ring(ring("other"))
        await cluster.join(B)
        await cluster.settle()
        after = (await cluster.rings.get(ObjectRef("", DEMO))).status

        assert after == ring_before
        assert service.configurations.bodies == {}
        now = (await cluster.leases.get(ObjectRef("default", A))).metadata.resource_version
        assert now == lease
        assert await cluster.owners(WIDGETS) == {"w": ""}


async def test_who_is_cancelled_gives_the_lease_back() -> None:
    cluster = Cluster()
    service = Replica(cluster)

    async with cluster.watched(A), service.running():
        held = (await cluster.leases.get(LEADER)).spec.holder_identity

    assert held == "me"
    assert (await cluster.leases.get(LEADER)).spec.holder_identity == ""
    assert service.changes == [True, False]


async def test_the_last_leader_takes_all_conditions_but_ready_with_it() -> None:
    cluster = Cluster()
    service = Replica(cluster)

    async with cluster.watched(A):
        async with service.running():
            await cluster.clock.advance(10)
            before = await service.conditions()
        async with TaskGroup() as group:
            group.create_task(service.leader.withdraw())
            await cluster.clock.advance(4)
        after = await service.conditions()

    assert before["Covered"] == "AllOwned"
    assert after == {"Ready": before["Ready"]}


async def test_a_leader_with_a_successor_leaves_the_conditions_as_they_are() -> None:
    cluster = Cluster()
    service = Replica(cluster)
    successor = LeaseHolder(
        cluster.leases, LEADER, "successor", clock=cluster.clock, rng=cluster.rng
    )

    async with cluster.watched(A), TaskGroup() as group:
        async with service.running():
            await cluster.clock.advance(10)
            group.create_task(successor.acquire())
            await cluster.settle()
            before = await cluster.rings.get(ObjectRef("", DEMO))
        group.create_task(service.leader.withdraw())
        await cluster.clock.advance(4)
        after = await cluster.rings.get(ObjectRef("", DEMO))

    assert [c.type for c in before.status.conditions] != ["Ready"]
    assert after == before


async def test_a_replica_that_lost_the_lease_leaves_the_conditions_as_they_are() -> None:
    cluster = Cluster()
    service = Replica(cluster)

    async with cluster.watched(A):
        async with service.running():
            await cluster.clock.advance(10)
            before = await service.conditions()
            await cluster.leases.patch(LEADER, {"spec": {"holderIdentity": "other"}})
            await cluster.clock.advance(3)
        async with asyncio.timeout(10):
            await service.leader.withdraw()

        assert await service.conditions() == before


async def test_a_crash_is_not_hidden_and_gives_the_lease_back() -> None:
    cluster = Cluster()
    service = Replica(cluster)

    async def crash_it() -> None:
        async with service.running():
            cluster.objects.before.append(on("find", WIDGETS, raising(ZeroDivisionError("bug"))))
            await cluster.put_ring(ring(generation=2))
            await cluster.clock.advance(AT_ONCE)

    async with cluster.watched(A):
        with pytest.raises(ExceptionGroup):
            await crash_it()

    assert service.changes == [True, False]
    assert (await cluster.leases.get(LEADER)).spec.holder_identity == ""


async def test_configurations_of_rings_that_went_while_no_replica_led_are_deleted() -> None:
    cluster = Cluster()
    service = Replica(cluster)
    labels = {APP_LABEL[0]: APP_LABEL[1], RING_LABEL: "gone"}
    await service.configurations.apply(
        {"metadata": {"name": "controllerring-gone", "labels": labels}}
    )

    async with cluster.watched(A), service.running():
        assert list(service.configurations.bodies) == ["controllerring-demo"]


async def test_a_sweep_that_fails_is_tried_again() -> None:
    cluster = Cluster()
    service = Replica(cluster)
    labels = {APP_LABEL[0]: APP_LABEL[1], RING_LABEL: "gone"}
    await service.configurations.apply(
        {"metadata": {"name": "controllerring-gone", "labels": labels}}
    )
    service.configurations.store.fail(*[Unavailable("busy")] * 2)

    async with cluster.watched(A), service.running():
        await cluster.clock.advance(11)

        assert list(service.configurations.bodies) == ["controllerring-demo"]


async def test_the_configuration_goes_at_once_with_its_ring() -> None:
    cluster = Cluster()
    service = Replica(cluster)

    async with cluster.watched(A), service.running():
        there = list(service.configurations.bodies)
        await cluster.delete_ring()
        await cluster.clock.advance(AT_ONCE)

        assert there == ["controllerring-demo"]
        assert service.configurations.bodies == {}


async def test_an_unknown_resource_makes_only_its_own_ring_unready() -> None:
    cluster = Cluster()
    service = Replica(cluster)
    resources = ring().spec.resources
    await cluster.put_ring(
        type(ring())(
            metadata=ring("other").metadata, spec=type(ring().spec)(resources=resources[:1])
        )
    )
    cluster.objects.before.append(
        on("stream", SECRETS, raising(Forbidden("secrets is forbidden: cannot list")))
    )

    async with cluster.watched(A, seconds=3600), service.running():
        await cluster.join(C, of="other")
        await cluster.clock.advance(AT_ONCE)
        bad, good = await service.ready(), await service.ready("other")
        cluster.objects.before.clear()
        await cluster.clock.advance(300)
        later = await service.ready()

    assert bad is not None
    assert good is not None
    assert later is not None
    assert (bad.status, good.status, later.status) == ("False", "True", "True")
    assert bad.message == (
        "cannot read secrets in default: secrets is forbidden: cannot list; "
        'add {apiGroups: [""], resources: [secrets], verbs: [get, list, watch, patch]} '
        "to the sharder's role (chart value rings)"
    )


async def test_a_resource_that_is_installed_later_is_sharded_then() -> None:
    cluster = Cluster()
    service = Replica(cluster)
    cluster.objects.before.append(on("find", WIDGETS, raising(NotFound("not served"))))

    async with cluster.watched(A, seconds=3600), service.running():
        await cluster.add(WIDGETS, "w")
        await cluster.clock.advance(60)
        cluster.objects.before.clear()
        await cluster.clock.advance(300)

        assert await cluster.owners(WIDGETS) == {"w": A}


async def test_what_missed_everything_is_found_by_the_next_sync() -> None:
    cluster = Cluster()

    async with cluster.watched(A, seconds=3600), Replica(cluster).running():
        await cluster.add(WIDGETS, "w")
        await cluster.clock.advance(SYNC_PERIOD)

        assert await cluster.owners(WIDGETS) == {"w": A}


async def test_a_shard_that_died_before_its_ring_was_made_is_found_out() -> None:
    cluster = Cluster()
    service = Replica(cluster)

    async with cluster.watched(A), service.running():
        await cluster.join(C, of="later")
        await cluster.clock.advance(100)
        early = await holder_of(cluster, C)
        await cluster.put_ring(ring(RingName("later")))
        await cluster.clock.advance(AT_ONCE)

        assert early == C
        assert await holder_of(cluster, C) == SHARDER_IDENTITY


async def test_who_needs_no_lease_always_leads() -> None:
    cluster = Cluster()
    always = AlwaysLeader(cluster.clock)

    async with TaskGroup() as group:
        await always.acquire()
        keeping = group.create_task(always.keep())
        await cluster.clock.advance(10_000)
        running = not keeping.done()
        keeping.cancel()
        await always.release()

    assert running
    assert always.valid(1e9)


async def test_a_deleted_webhook_configuration_is_soon_applied_again() -> None:
    cluster = Cluster()
    service = Replica(cluster)

    async with cluster.watched(A, seconds=3600), service.running():
        (name,) = service.configurations.bodies
        meta = (await service.configurations.store.get(ObjectRef("", name))).metadata
        await service.configurations.delete(
            meta.ref, uid=meta.uid, resource_version=meta.resource_version
        )
        await cluster.clock.advance(APPLY_SECONDS)

        assert set(service.configurations.bodies) == {name}


async def test_a_ring_in_which_nothing_happens_is_not_applied_again_and_again() -> None:
    cluster = Cluster()
    service = Replica(cluster)

    async with cluster.watched(A, seconds=3600), service.running():
        await cluster.clock.advance(APPLY_SECONDS)
        before = service.configurations.applies, service.validations.applies
        await cluster.clock.advance(20 * APPLY_SECONDS)

        assert (service.configurations.applies, service.validations.applies) == before


async def test_a_client_that_keeps_changing_a_configuration_is_reported_once() -> None:
    cluster = Cluster()
    service = Replica(cluster)

    async def change(times: int) -> list[str]:
        (name,) = service.configurations.bodies
        for number in range(times):
            body: Json = {"metadata": {"annotations": {"changed": str(number)}}}
            await service.configurations.store.patch(ObjectRef("", name), body)
            await cluster.clock.advance(APPLY_SECONDS)
        await cluster.clock.advance(APPLY_SECONDS)
        return [reason for _, reason, _ in service.recorder.warnings]

    async with cluster.watched(A), service.running():
        twice = await change(2)
        often = await change(6)

    assert (twice, often) == ([], ["WebhookContested"])


async def test_without_the_right_to_list_them_configurations_are_applied_each_time() -> None:
    cluster = Cluster()
    service = Replica(cluster)
    configurations = service.configurations

    async with cluster.watched(A, seconds=3600), service.running():
        before = configurations.applies
        configurations.store.fail(Forbidden("list is forbidden"))
        await cluster.clock.advance(APPLY_SECONDS + 1)

        assert configurations.applies == before + 1


async def test_whom_the_api_server_is_to_trust_is_written_there_within_a_second() -> None:
    cluster = Cluster()
    service = Replica(cluster)

    async with cluster.watched(A, seconds=3600), service.running():
        before = str(service.configurations.bodies)
        service.ca_bundle = "bm93"
        await cluster.clock.advance(REGISTRATION_SECONDS)
        after = str(service.configurations.bodies)

    assert REGISTRATION_SECONDS <= 1
    assert "bm93" not in before
    assert "bm93" in after


async def test_a_right_to_watch_that_is_missing_is_said_until_it_is_granted() -> None:
    cluster = Cluster()
    service = Replica(cluster)
    cluster.objects.before.append(on("watch", WIDGETS, raising(Forbidden("no"))))

    async with cluster.watched(A, seconds=3600), service.running():
        await cluster.clock.advance(AT_ONCE)
        before = await service.conditions()
        cluster.objects.before.clear()
        await cluster.clock.advance(POLL_SECONDS + AT_ONCE)
        after = await service.conditions()

    assert (before["Ready"], before["Watched"]) == ("ReconciliationSucceeded", "WatchMissing")
    assert (after["Ready"], after["Watched"]) == ("ReconciliationSucceeded", "WatchAllowed")


async def test_a_right_to_write_that_is_missing_is_said_until_it_is_granted() -> None:
    cluster = Cluster()
    service = Replica(cluster)
    cluster.objects.before.append(on("patch", WIDGETS, raising(Forbidden("cannot patch"))))

    async with cluster.watched(A, seconds=3600), service.running():
        await cluster.add(WIDGETS, "w")
        await cluster.clock.advance(1)
        before = await service.ready()
        cluster.objects.before.clear()
        await cluster.clock.advance(3)
        after = await service.ready()
        owners = await cluster.owners(WIDGETS)

    assert before is not None
    assert after is not None
    assert before.message.startswith("cannot write widgets.example.com: cannot patch; add {api")
    assert (before.status, after.status, owners) == ("False", "True", {"w": A})


async def test_an_object_that_others_refuse_leaves_its_ring_ready() -> None:
    cluster = Cluster()
    service = Replica(cluster)
    cluster.objects.before.append(on("patch", WIDGETS, raising(Rejected("denied"))))

    async with cluster.watched(A, seconds=3600), service.running():
        await cluster.add(WIDGETS, "w")
        await cluster.clock.advance(SYNC_PERIOD)
        ready = await service.ready()

    assert ready is not None
    assert ready.status == "True"
    assert [(about.name, reason) for about, reason, _ in service.recorder.warnings] == [
        ("w", "ShardWriteFailed")
    ]


async def test_the_status_is_at_most_half_a_minute_old_while_any_client_moves_objects() -> None:
    cluster = Cluster()

    async with cluster.watched(A, seconds=3600), Replica(cluster).running():
        widgets = [await cluster.add(WIDGETS, f"w{number}", owner=A) for number in range(3)]
        await cluster.clock.advance(90)
        before = (await cluster.rings.get(ObjectRef("", DEMO))).status
        # The shard acknowledges, and the webhook of any replica assigns, in the same write.
        await cluster.label(widgets[0], WIDGETS, drain="true")
        await cluster.label(widgets[0], WIDGETS, owner=C, drain=None)
        await cluster.delete(widgets[1], WIDGETS)
        await cluster.add(WIDGETS, "new", owner=A)
        await cluster.add(WIDGETS, "newer", owner=A)
        await cluster.clock.advance(31)
        after = (await cluster.rings.get(ObjectRef("", DEMO))).status
        shown, _ = cluster.metrics.loads[DEMO]

    assert (before.objects, before.shard_statuses[0].objects) == (3, 3)
    assert (after.objects, after.shard_statuses[0].objects, shown) == (4, 3, 4)

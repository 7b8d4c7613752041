"""Facts about what is counted in a ring's status, and when it is written."""

import logging
from collections.abc import Collection

import pytest

from sharder.controllers.ring_controller import Problems
from sharder.core.api.meta import Json
from sharder.core.api.ring import ControllerRing, MovementSpec
from sharder.core.names import ObjectRef, RingName
from sharder.core.status.conditions import Fault
from sharder.core.status.stats import Overdue
from sharder.core.status.status import COUNTS_SECONDS, SETTLE_SECONDS
from tests.support.cluster import Cluster
from tests.support.ring_bench import EVEN, SYNC_PERIOD, Bench, counted, looked, passed, with_spec
from tests.support.values import DEMO, A, B


class OldDefinition:
    """The status under a CRD that does not know some fields, or knows no counts."""

    def __init__(self, cluster: Cluster, *, dropped: Collection[str] = ()) -> None:
        self.writes = 0
        self._dropped = dropped
        self._inner = cluster.rings.status()

    async def create(self, namespace: str, body: Json) -> ControllerRing:
        return await self._inner.create(namespace, body)

    async def patch(self, ref: ObjectRef, body: Json) -> ControllerRing:
        assert isinstance(body, dict)
        status = body["status"]
        assert isinstance(status, dict)
        self.writes += 1
        known = {"observedGeneration", "shards", "availableShards", "conditions"}
        if self._dropped:
            known = status.keys() - set(self._dropped)
        return await self._inner.patch(ref, {"status": {key: status[key] for key in known}})

    async def delete(self, ref: ObjectRef, *, uid: str, resource_version: str) -> None:
        await self._inner.delete(ref, uid=uid, resource_version=resource_version)


async def test_what_is_counted_is_written_with_every_shard() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        bench = Bench(cluster)
        bench.stats, bench.resync = counted(unassigned=3), passed(cluster.clock.now())
        await bench.reconcile()
        status = await bench.status()

    assert (status.objects, status.assigned, status.unassigned) == (10, 7, 3)
    assert status.oldest_unassigned_since == status.conditions[0].last_transition_time
    assert [(s.name, s.state, s.objects) for s in status.shard_statuses] == [
        (A, "ready", 7),
        (B, "ready", 0),
    ]
    assert status.last_resync is not None
    assert status.last_resync.duration_seconds == 1.5
    assert await bench.reasons() == {
        "Covered": "ObjectsUnassigned",
        "Ready": "ReconciliationSucceeded",
        "Reconciling": "ObjectsMoving",
        "Stalled": "ReconciliationSucceeded",
    }


async def test_as_long_as_nothing_is_counted_the_last_leaders_counts_stay() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        first = Bench(cluster)
        first.stats, first.resync = counted(), passed(cluster.clock.now())
        await first.reconcile()
        before = await first.version()
        second = Bench(cluster)
        await second.reconcile()

        assert await second.version() == before


async def test_a_new_leader_writes_what_it_has_counted_at_once() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        first = Bench(cluster)
        first.stats = counted(10)
        await first.reconcile()
        second = Bench(cluster)
        second.stats = counted(11)
        await second.reconcile()

        assert (await second.status()).objects == 11


async def test_counts_are_written_at_most_every_30_seconds_and_looked_at_again_then() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        written, again = [], []
        for number, seconds in ((10, 0), (11, 10), (12, 19), (13, 1)):
            await cluster.clock.advance(seconds)
            bench.stats = counted(number)
            again.append(await bench.reconcile())
            written.append((await bench.status()).objects)

    assert written == [10, 10, 10, 13]
    assert again == [SYNC_PERIOD, COUNTS_SECONDS - 10, COUNTS_SECONDS - 29, SYNC_PERIOD]


async def test_a_resync_learns_when_counts_may_be_written() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        bench.stats, times = counted(), []
        for seconds in (0, 10, 20):
            await cluster.clock.advance(seconds)
            bench.resync = passed(cluster.clock.now())
            await bench.reconcile()
            last = (await bench.status()).last_resync
            times.append(last.time[14:19] if last is not None else None)

    assert times == ["00:31", "00:31", "01:01"]


async def test_counts_that_stay_are_not_written_again() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        bench.stats = counted(unassigned=1)
        await bench.reconcile()
        before = await bench.version()
        for _ in range(3):
            await cluster.clock.advance(2)
            await cluster.renew(A)
            await cluster.settle()
            await bench.reconcile()

        assert await bench.version() == before


async def test_availability_is_written_at_once_with_what_is_counted_by_then() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        bench.stats = counted(10)
        await bench.reconcile()
        await cluster.join(B)
        await cluster.settle()
        bench.stats = counted(11)
        await bench.reconcile()
        status = await bench.status()

    assert (status.available_shards, status.objects) == (2, 11)


async def test_the_absence_of_shards_is_reported_at_once() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        bench.stats = counted()
        await bench.reconcile()
        before = (await bench.reasons())["Covered"]
        await cluster.leave(A)
        await cluster.settle()
        await bench.reconcile()

        assert (before, (await bench.reasons())["Covered"]) == ("AllOwned", "NoShards")


async def test_an_object_on_its_way_flips_no_condition() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        bench.stats = counted(has_room=True)
        await bench.reconcile()
        before = await bench.version()
        bench.stats = counted(unassigned=1, has_room=False)
        again = await bench.reconcile()
        bench.stats = counted(has_room=True)
        await cluster.clock.advance(again or 0)
        await bench.reconcile()

        assert again == SETTLE_SECONDS
        assert await bench.version() == before


async def test_objects_that_find_no_room_flip_both_conditions_soon_and_once() -> None:
    cluster = Cluster()
    seen = []

    async with cluster.watched(A):
        bench = Bench(cluster)
        bench.stats = counted(has_room=True)
        await bench.reconcile()
        for number in (1, 2, 3):
            bench.stats = counted(unassigned=number, has_room=False)
            await bench.reconcile()
            await cluster.clock.advance(SETTLE_SECONDS)
            seen.append((await bench.reasons(), (await bench.status()).unassigned))

    before = {
        "CapacityExhausted": "SufficientCapacity",
        "Covered": "AllOwned",
        "Ready": "ReconciliationSucceeded",
        "Reconciling": "ObjectsSettled",
        "Stalled": "ReconciliationSucceeded",
    }
    after = before | {"CapacityExhausted": "InsufficientCapacity", "Covered": "ObjectsUnassigned"}
    assert seen == [(before, 0), (after, 2), (after, 2)]


async def test_a_strategy_that_knows_no_ceilings_takes_the_condition_away() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        bench.stats = counted(unassigned=1, has_room=False)
        await bench.reconcile()
        before = set(await bench.reasons())
        bench.stats = counted(unassigned=1)
        await bench.reconcile()

        assert before - set(await bench.reasons()) == {"CapacityExhausted"}


async def test_a_crd_that_drops_what_is_counted_is_mentioned_once_and_written_no_more_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster()
    store = OldDefinition(cluster)

    with caplog.at_level(logging.WARNING):
        async with cluster.watched(A):
            bench = Bench(cluster, status=store)
            bench.stats = counted(unassigned=1)
            for _ in range(4):
                await bench.reconcile()
                await cluster.clock.advance(SYNC_PERIOD)
                await cluster.renew(A)
                await cluster.settle()
            once = store.writes
            bench.stats = counted(unassigned=2)
            await bench.reconcile()

    assert (once, store.writes) == (1, 2)
    assert [record.message for record in caplog.records].count(
        "the CustomResourceDefinition of ControllerRing is too old"
    ) == 1


async def test_a_crd_that_drops_the_look_at_the_balance_is_mentioned_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster(with_spec(rebalance=EVEN))
    store = OldDefinition(cluster, dropped={"lastRebalance"})

    with caplog.at_level(logging.WARNING):
        async with cluster.watched(A):
            bench = Bench(cluster, status=store)
            for why in ("nothing to do", "1 move"):
                bench.rebalance = looked(why)
                await bench.reconcile()
                await cluster.clock.advance(COUNTS_SECONDS)

    assert [record.message for record in caplog.records].count(
        "the CustomResourceDefinition of ControllerRing is too old"
    ) == 1


async def test_a_pause_and_its_end_are_reported_at_once() -> None:
    cluster = Cluster()
    seen = []

    async with cluster.watched(A):
        bench = Bench(cluster)
        for generation, paused in ((1, False), (2, True), (3, False)):
            movement = MovementSpec(paused=paused)
            await cluster.put_ring(with_spec(movement=movement, generation=generation))
            await cluster.settle()
            await bench.reconcile()
            seen.append((await bench.reasons()).get("Paused"))

    assert seen == [None, "MovementPaused", "MovementActive"]


async def test_an_overdue_drain_is_reported_at_once_and_its_end_once_it_has_lasted() -> None:
    cluster = Cluster()
    seen = []

    async with cluster.watched(A):
        bench = Bench(cluster)
        bench.stats = counted()
        await bench.reconcile()
        for overdue, seconds in (
            (Overdue(count=1, first="secrets default/slow"), 1),
            (None, SETTLE_SECONDS),
            (None, 1),
        ):
            bench.overdue = overdue
            await bench.reconcile()
            seen.append((await bench.reasons())["Covered"])
            await cluster.clock.advance(seconds)

    assert seen == ["DrainOverdue", "DrainOverdue", "AllOwned"]


async def test_a_rebalancer_learns_when_counts_may_be_written() -> None:
    cluster = Cluster(with_spec(rebalance=EVEN))
    seen = []

    async with cluster.watched(A):
        bench = Bench(cluster)
        for why, seconds in (("nothing to do", 10), ("1 move", 20), ("2 moves", 0)):
            bench.rebalance = looked(why)
            await bench.reconcile()
            last = (await bench.status()).last_rebalance
            seen.append(last.why if last is not None else None)
            await cluster.clock.advance(seconds)

    assert seen == ["nothing to do", "nothing to do", "2 moves"]


async def test_a_status_that_another_client_has_written_is_repaired_after_a_while() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        bench.stats = counted()
        await bench.reconcile()
        await cluster.rings.status().patch(ObjectRef("", DEMO), {"status": {"objects": 99}})
        await cluster.settle()
        await bench.reconcile()
        at_first = (await bench.status()).objects
        await cluster.clock.advance(SYNC_PERIOD)
        await cluster.renew(A)
        await cluster.settle()
        await bench.reconcile()

        assert (at_first, (await bench.status()).objects) == (99, 10)


def test_problems_of_several_are_one_sentence_each() -> None:
    problems = Problems()

    news = [
        problems.found(DEMO, "webhook", "b"),
        problems.found(DEMO, "resync", "a"),
        problems.found(DEMO, "resync", "a"),
        problems.found(RingName("other"), "resync", None),
    ]

    assert news == [True, True, False, False]
    assert problems.of(DEMO) == Fault("ResourceUnreadable", "a; b")
    assert problems.of(RingName("other")) is None
    problems.forget(DEMO)
    assert problems.of(DEMO) is None


def test_the_fault_that_a_person_has_to_correct_first_is_the_reason() -> None:
    problems = Problems()

    reasons = []
    for source in ("webhook", "write", "resync", "strategy", "shards", "spec"):
        problems.found(DEMO, source, source)
        fault = problems.of(DEMO)
        assert fault is not None
        reasons.append(fault.reason)

    assert reasons == [
        "ReconciliationFailed",
        "WriteForbidden",
        "ResourceUnreadable",
        "StrategyFailed",
        "DuplicateShardNames",
        "InvalidSpec",
    ]


async def test_counts_are_written_within_a_second_while_objects_move() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        bench.stats = counted(10)
        await bench.reconcile()
        bench.stats, bench.is_moving = counted(11), True
        again = await bench.reconcile()
        await cluster.clock.advance(again or 0)
        await bench.reconcile()

    assert again == 1
    assert (await bench.status()).objects == 11

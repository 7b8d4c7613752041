"""Facts about a ring's webhook configuration and status."""

import logging
from collections.abc import Collection
from datetime import datetime

import msgspec
import pytest
from msgspec import structs

from sharder.controllers.permissions import Watching
from sharder.controllers.ring_controller import Problems, RingController
from sharder.core.api.meta import Json
from sharder.core.api.ring import (
    Condition,
    ControllerRing,
    LastRebalance,
    MovementSpec,
    RebalanceSpec,
    RebalanceStrategy,
    RingResource,
    RingSpec,
    RingStatus,
)
from sharder.core.errors import Conflict, Forbidden, Rejected, Unavailable
from sharder.core.names import APP_LABEL, RING_LABEL, ObjectRef, RingName
from sharder.core.status.stats import ObjectStats, Overdue, ResyncReport
from sharder.core.status.status import COUNTS_SECONDS, SETTLE_SECONDS
from sharder.core.webhook_configuration import Endpoint, Registration
from sharder.ports import Writable
from tests.support.cluster import Cluster
from tests.support.fakes import FakeRecorder, FakeWebhookConfigurations
from tests.support.values import DEMO, A, B, ring

SYNC_PERIOD = 300.0
NAME = "controllerring-demo"
TOKEN = "0123456789abcdef"  # noqa: S105


class Bench:
    """A RingController and what it writes to."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        status: Writable[ControllerRing] | None = None,
        sync_period: float = SYNC_PERIOD,
    ) -> None:
        self.cluster = cluster
        self.configurations = FakeWebhookConfigurations()
        self.recorder = FakeRecorder()
        self.problems = Problems()
        self.watching = Watching()
        self.stats: ObjectStats | None = None
        self.resync: ResyncReport | None = None
        self.overdue: Overdue | None = None
        self.rebalance: LastRebalance | None = None
        self.controller = RingController(
            cache=cluster.cache,
            status=status or cluster.rings.status(),
            configurations=self.configurations,
            registration=lambda: Registration(
                endpoint=Endpoint(url="https://sharder"),
                default_namespaces=cluster.cache._default,
                excluded=frozenset(),
                sharders=frozenset({"sharder"}),
                token=TOKEN,
            ),
            problems=self.problems,
            watching=self.watching,
            stats=lambda _: self.stats,
            last_resync=lambda _: self.resync,
            overdue=lambda _: self.overdue,
            last_rebalance=lambda _: self.rebalance,
            recorder=self.recorder,
            clock=cluster.clock,
            sync_period=sync_period,
        )

    async def reconcile(self, name: RingName = DEMO) -> float | None:
        again = await self.controller.reconcile(name)
        await self.cluster.settle()
        return again

    async def ring(self) -> ControllerRing:
        return await self.cluster.rings.get(ObjectRef("", DEMO))

    async def status(self) -> RingStatus:
        return (await self.ring()).status

    async def ready(self) -> Condition:
        return next(c for c in (await self.status()).conditions if c.type == "Ready")

    async def reasons(self) -> dict[str, str]:
        """The reasons of the ring's conditions, by type."""
        return {c.type: c.reason for c in (await self.status()).conditions}

    async def version(self) -> str:
        return (await self.ring()).metadata.resource_version

    async def add_configuration(self, of: str, **labels: str) -> None:
        metadata: Json = {"name": f"controllerring-{of}", "labels": {RING_LABEL: of, **labels}}
        await self.configurations.apply({"metadata": metadata})


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


def counted(
    objects: int = 10,
    *,
    unassigned: int = 0,
    unowned: int | None = None,
    has_room: bool | None = None,
) -> ObjectStats:
    return ObjectStats(
        objects=objects,
        unassigned=unassigned,
        draining=0,
        by_shard={A: objects - unassigned},
        has_room=has_room,
        unowned=unassigned if unowned is None else unowned,
    )


def passed(at: datetime) -> ResyncReport:
    return ResyncReport(time=at, seconds=1.5, assigned=1, moved=2, drained=3, conflicts=4)


NEVER, EVEN = RebalanceSpec(), RebalanceSpec(strategy=RebalanceStrategy.EVEN_LOAD)
FREE = MovementSpec()
OURS = {APP_LABEL[0]: APP_LABEL[1]}


def with_spec(
    *,
    rebalance: RebalanceSpec = NEVER,
    movement: MovementSpec = FREE,
    generation: int = 1,
) -> ControllerRing:
    of = ring(generation=generation)
    spec = structs.replace(of.spec, rebalance=rebalance, movement=movement)
    return structs.replace(of, spec=spec)


def looked(why: str) -> LastRebalance:
    return LastRebalance(time="2026-03-01T12:00:00Z", dry_run=True, moves=0, why=why)


async def test_a_ring_gets_its_configuration_and_status() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        await cluster.leave(B)
        await cluster.settle()
        bench = Bench(cluster)
        again = await bench.reconcile()

    assert again == SYNC_PERIOD
    assert list(bench.configurations.bodies) == [NAME]
    status = await bench.status()
    assert (status.observed_generation, status.shards, status.available_shards) == (1, 2, 1)
    assert (await bench.ready()).status == "True"
    assert bench.recorder.warnings == []


async def test_the_status_is_written_only_when_it_changes() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        await bench.reconcile()
        first = (await bench.ring()).metadata.resource_version
        await cluster.clock.advance(10)
        await bench.reconcile()

        assert (await bench.ring()).metadata.resource_version == first


async def test_a_status_that_is_there_already_is_not_written_again() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await Bench(cluster).reconcile()
        bench = Bench(cluster)  # another leader
        first = (await bench.ring()).metadata.resource_version
        await bench.reconcile()

        assert (await bench.ring()).metadata.resource_version == first


async def test_a_stale_view_does_not_revert_the_status() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        await bench.reconcile()
        seen = cluster.snapshot
        await cluster.join(B)
        await cluster.settle()
        await bench.reconcile()
        stale = seen.ring
        cluster.cache._rings[DEMO] = stale
        cluster.cache._rebuild(DEMO)
        written = (await bench.ring()).metadata.resource_version
        await bench.controller.reconcile(DEMO)

        assert (await bench.status()).shards == 2
        assert (await bench.ring()).metadata.resource_version == written


async def test_fields_that_an_old_crd_prunes_are_not_written_for_ever() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        await bench.reconcile()
        await cluster.rings.status().patch(ObjectRef("", DEMO), {"status": {"conditions": []}})
        await cluster.settle()
        written = (await bench.ring()).metadata.resource_version
        await bench.reconcile()

        assert (await bench.ring()).metadata.resource_version == written


async def test_the_transition_time_changes_only_when_the_condition_flips() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        times = []
        for problem in (None, None, "cannot read widgets", "cannot read secrets", None):
            bench.problems.found(DEMO, "resync", problem)
            await bench.reconcile()
            times.append((await bench.ready()).last_transition_time[14:19])
            await cluster.clock.advance(60)

    assert times == ["00:31", "00:31", "02:31", "02:31", "04:31"]


async def test_a_problem_is_said_and_recorded_once() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        bench.problems.found(DEMO, "resync", "cannot read widgets")
        for _ in range(3):
            await bench.reconcile()
        await cluster.join(B)
        await cluster.settle()
        await bench.reconcile()

    ready = await bench.ready()
    assert (ready.status, ready.message) == ("False", "cannot read widgets")
    assert (await bench.status()).shards == 2
    assert bench.recorder.warnings == [
        (ObjectRef("", DEMO), "ReconciliationFailed", "cannot read widgets")
    ]


async def test_the_configuration_is_applied_once_per_spec() -> None:
    cluster = Cluster()
    applied = []

    async with cluster.watched(A):
        bench = Bench(cluster)
        for seconds in (0, 100, SYNC_PERIOD, 10):
            await cluster.clock.advance(seconds)
            await bench.controller.find_changed()
            await bench.reconcile()
            applied.append(bench.configurations.applies)
        await cluster.put_ring(ring(generation=2))
        await cluster.settle()
        await bench.reconcile()
        same_spec = bench.configurations.applies
        less = type(ring().spec)(resources=ring().spec.resources[:1])
        await cluster.put_ring(ControllerRing(metadata=ring(generation=3).metadata, spec=less))
        await cluster.settle()
        await bench.reconcile()

    assert applied == [1, 1, 1, 1]
    assert (same_spec, bench.configurations.applies) == (1, 2)


async def test_a_configuration_that_others_wrote_or_relabelled_is_applied_again() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        await bench.reconcile()
        quiet = await bench.controller.find_changed()
        found = list[list[RingName]]()
        for metadata in ({"annotations": {"a": "b"}}, {"labels": {RING_LABEL: None}}):
            await bench.configurations.store.patch(ObjectRef("", NAME), {"metadata": metadata})
            found.append(await bench.controller.find_changed())
            await bench.reconcile()
        after = await bench.controller.find_changed()

    assert (quiet, found, after) == ([], [[DEMO], [DEMO]], [])
    assert bench.configurations.applies == 3


async def test_a_copy_of_a_configuration_is_not_taken_for_it() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        await bench.reconcile()
        labels: Json = {RING_LABEL: DEMO, APP_LABEL[0]: APP_LABEL[1]}
        copy: Json = {"metadata": {"name": "copy", "labels": labels}}
        await bench.configurations.apply(copy)

        assert await bench.controller.find_changed() == []


async def test_a_ring_that_was_made_anew_is_applied_anew() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        await bench.reconcile()
        bench.configurations.bodies.clear()
        await cluster.delete_ring()
        await cluster.put_ring(ring())
        await cluster.settle()
        await bench.reconcile()

        assert list(bench.configurations.bodies) == [NAME]
        assert (await bench.ready()).status == "True"


async def test_a_configuration_that_cannot_be_applied_is_reported_until_it_can() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        bench.configurations.store.fail(Forbidden("cannot patch"))
        with pytest.raises(Forbidden):
            await bench.reconcile()
        failed = await bench.ready()
        await bench.reconcile()

    assert failed.message == "cannot apply the webhook configuration: cannot patch"
    assert (await bench.ready()).status == "True"
    assert list(bench.configurations.bodies) == [NAME]


async def test_why_a_configuration_cannot_be_applied_is_said_without_the_token() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        why = f'url: Invalid value: "https://sharder/{TOKEN}/web"'
        bench.configurations.store.fail(Rejected(why))
        with pytest.raises(Rejected) as error:
            await bench.reconcile()

        assert "https://sharder/…/web" in (await bench.ready()).message
    assert TOKEN not in str(error.value)


async def test_a_ring_that_goes_meanwhile_needs_no_status() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        await cluster.delete_ring()

        assert await bench.controller.reconcile(DEMO) == SYNC_PERIOD


async def test_a_status_that_cannot_be_written_is_tried_again() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        cluster.rings.fail(Rejected("invalid"))
        with pytest.raises(Rejected):
            await bench.reconcile()
        await bench.reconcile()

        assert (await bench.ready()).status == "True"


async def test_the_configuration_of_a_ring_that_is_gone_is_deleted() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        await bench.reconcile()
        await bench.add_configuration("other", **OURS)
        await cluster.delete_ring()
        await cluster.settle()

        assert await bench.reconcile() is None
    assert list(bench.configurations.bodies) == ["controllerring-other"]


async def test_a_configuration_that_is_changed_as_we_delete_it_is_left_for_the_next_sweep() -> (
    None
):
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        await bench.reconcile()
        await cluster.delete_ring()
        await cluster.settle()
        bench.configurations.store.lose(Conflict("changed"))
        await bench.reconcile()

        assert await bench.controller.find_changed() == []


async def test_what_is_left_of_rings_that_went_while_nobody_led_is_found() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        await bench.reconcile()
        await bench.add_configuration("gone", **OURS)
        await bench.add_configuration("of-somebody-else")

        assert await bench.controller.find_changed() == ["gone"]


async def test_no_ring_is_taken_for_gone_before_all_are_known() -> None:
    cluster = Cluster()
    bench = Bench(cluster)
    await bench.add_configuration(DEMO, **OURS)

    with pytest.raises(Unavailable, match="cannot list controllerrings"):
        await bench.controller.find_changed()
    with pytest.raises(Unavailable, match="cannot list controllerrings"):
        await bench.controller.reconcile(DEMO)

    assert list(bench.configurations.bodies) == [NAME]


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


async def test_the_configuration_is_looked_at_in_its_own_time_while_counts_wait() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster, sync_period=20.0)
        bench.stats = counted(10)
        await bench.reconcile()
        bench.stats = counted(11)

        assert await bench.reconcile() == 20


async def test_a_ring_that_went_while_its_configuration_was_applied_needs_no_status() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)

        assert await bench.controller._reports.write(RingName("gone")) is None


async def test_a_resync_is_told_when_counts_may_be_written() -> None:
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


async def test_that_no_shard_is_available_is_said_at_once() -> None:
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


async def test_that_a_ring_is_paused_and_goes_on_is_said_at_once() -> None:
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


async def test_that_a_drain_is_overdue_is_said_at_once_and_that_none_is_once_it_has_lasted() -> (
    None
):
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


async def test_a_look_at_the_balance_is_told_when_counts_may_be_written() -> None:
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


async def test_a_status_that_somebody_else_has_written_is_repaired_after_a_while() -> None:
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
    assert problems.of(DEMO) == "a; b"
    assert problems.of(RingName("other")) is None
    problems.forget(DEMO)
    assert problems.of(DEMO) is None


async def test_a_ring_over_leases_is_not_ready_and_says_why() -> None:
    leases = RingResource(group="coordination.k8s.io", resource="leases")
    cluster = Cluster(structs.replace(ring(), spec=RingSpec(resources=(leases,))))

    async with cluster.watched(A):
        bench = Bench(cluster)
        await bench.reconcile()

        ready = await bench.ready()
        assert (ready.status, ready.reason) == ("False", "ReconciliationFailed")
        assert ready.message == (
            "spec.resources[0]: Forbidden: leases.coordination.k8s.io are never sharded, because "
            "they make shards and elect leaders: remove it"
        )


async def test_a_ring_with_two_shards_of_one_name_is_not_ready_and_says_why() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        held: Json = msgspec.to_builtins(await cluster.leases.get(ObjectRef("default", A)))
        await cluster.leases.create("elsewhere", held)
        await cluster.settle()
        await bench.reconcile()

        ready = await bench.ready()

    assert (ready.status, ready.reason) == ("False", "ReconciliationFailed")
    assert "two Leases of one name are held" in ready.message


async def test_a_ring_that_slipped_in_is_not_ready_until_it_is_mended() -> None:
    secrets = RingResource(resource="secrets")
    cluster = Cluster(structs.replace(ring(), spec=RingSpec(resources=(secrets, secrets))))

    async with cluster.watched(A):
        bench = Bench(cluster)
        await bench.reconcile()
        before = await bench.ready()
        await cluster.put_ring(ring(generation=2))
        await cluster.settle()
        await bench.reconcile()

        assert (before.status, before.reason) == ("False", "ReconciliationFailed")
        assert before.message.startswith('spec.resources[1]: Duplicate value: "secrets": ')
        assert (await bench.ready()).status == "True"
    assert list(bench.configurations.bodies) == [NAME]


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_ring_that_cannot_be_read_keeps_its_configuration_and_is_told_of(
    is_known: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cluster, name = Cluster(), RingName("later")
    bench = Bench(cluster)
    await cluster.put_ring(ring(name, uid="later"))
    if not is_known:
        await cluster.break_ring(name)

    async with cluster.watched():
        await bench.add_configuration(name, **{APP_LABEL[0]: APP_LABEL[1]})
        if is_known:
            await cluster.break_ring(name)
            await cluster.settle()
        left_over = await bench.controller.find_changed()
        again = [await bench.reconcile(name), await bench.reconcile(name)]
        after = await bench.configurations.store.list()

    assert left_over == []
    assert [item.metadata.name for item in after.items] == ["controllerring-later"]
    assert again == [SYNC_PERIOD] * 2
    [(ref, reason, message), *_] = bench.recorder.warnings
    assert (ref.name, reason) == (name, "ReconciliationFailed")
    assert "cannot decode the ring" in message
    assert "NotYet" in message
    assert [r.levelno for r in caplog.records if "cannot decode ring" in r.message] == [30]


async def test_a_ring_that_can_be_read_again_is_ready() -> None:
    cluster = Cluster()
    bench = Bench(cluster)

    async with cluster.watched(A):
        await cluster.break_ring()
        await cluster.settle()
        await bench.reconcile()
        await cluster.rings.patch(ObjectRef("", DEMO), {"spec": {"placement": None}})
        await cluster.settle()
        await bench.reconcile()

        assert (await bench.ready()).status == "True"

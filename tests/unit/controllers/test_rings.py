"""Facts about a ring's webhook configuration and status."""

import pytest

from sharder.api.meta import Json
from sharder.api.ring import Condition, ControllerRing, RingStatus
from sharder.controllers.configuration import Endpoint, Registration
from sharder.controllers.movement.rights import Watching
from sharder.controllers.rings import Problems, RingController
from sharder.errors import Conflict, Forbidden, Rejected, Unavailable
from sharder.names import APP_LABEL, RING_LABEL, ObjectRef, RingName
from tests.support.cluster import Cluster
from tests.support.fakes import FakeRecorder, FakeWebhookConfigurations
from tests.support.values import DEMO, A, B, ring

SYNC_PERIOD = 300.0
NAME = "controllerring-demo"


class Bench:
    """A RingController and what it writes to."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.configurations = FakeWebhookConfigurations()
        self.recorder = FakeRecorder()
        self.problems = Problems()
        self.watching = Watching()
        self.controller = RingController(
            world=cluster.world,
            status=cluster.rings.status(),
            configurations=self.configurations,
            registration=lambda: Registration(
                endpoint=Endpoint(url="https://sharder"),
                default_namespaces=cluster.world._default,
                excluded=frozenset(),
                sharders=frozenset({"sharder"}),
            ),
            problems=self.problems,
            watching=self.watching,
            recorder=self.recorder,
            clock=cluster.clock,
            sync_period=SYNC_PERIOD,
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

    async def add_configuration(self, of: str, **labels: str) -> None:
        metadata: Json = {"name": f"controllerring-{of}", "labels": {RING_LABEL: of, **labels}}
        await self.configurations.apply({"metadata": metadata})


OURS = {APP_LABEL[0]: APP_LABEL[1]}


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
        seen = cluster.world._snapshots[DEMO]
        await cluster.join(B)
        await cluster.settle()
        await bench.reconcile()
        stale = seen.ring
        cluster.world._rings[DEMO] = stale
        cluster.world._rebuild([DEMO])
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


async def test_the_configuration_is_applied_once_per_spec_and_sync_period() -> None:
    cluster = Cluster()
    applied = []

    async with cluster.watched(A):
        bench = Bench(cluster)
        for seconds in (0, 100, 199, 1, 10):
            await cluster.clock.advance(seconds)
            bench.configurations.bodies.clear()
            await bench.reconcile()
            applied.append(len(bench.configurations.bodies))
        await cluster.put_ring(ring(generation=2))
        await cluster.settle()
        bench.configurations.bodies.clear()
        await bench.reconcile()
        same_spec = len(bench.configurations.bodies)
        less = type(ring().spec)(resources=ring().spec.resources[:1])
        await cluster.put_ring(ControllerRing(metadata=ring(generation=3).metadata, spec=less))
        await cluster.settle()
        await bench.reconcile()

    assert applied == [1, 0, 0, 1, 0]
    assert same_spec == 0
    assert len(bench.configurations.bodies) == 1


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

        assert await bench.controller.find_left_over() == []


async def test_what_is_left_of_rings_that_went_while_nobody_led_is_found() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        await bench.reconcile()
        await bench.add_configuration("gone", **OURS)
        await bench.add_configuration("of-somebody-else")

        assert await bench.controller.find_left_over() == ["gone"]


async def test_no_ring_is_taken_for_gone_before_all_are_known() -> None:
    cluster = Cluster()
    bench = Bench(cluster)
    await bench.add_configuration(DEMO, **OURS)

    with pytest.raises(Unavailable, match="cannot list controllerrings"):
        await bench.controller.find_left_over()
    with pytest.raises(Unavailable, match="cannot list controllerrings"):
        await bench.controller.reconcile(DEMO)

    assert list(bench.configurations.bodies) == [NAME]


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

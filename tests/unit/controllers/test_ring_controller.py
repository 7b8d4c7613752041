"""Facts about a ring's configuration, status and conditions as a whole."""

import msgspec
import pytest
from msgspec import structs

from sharder.core.api.meta import Json
from sharder.core.api.ring import RingResource, RingSpec
from sharder.core.errors import Rejected
from sharder.core.names import APP_LABEL, ObjectRef, RingName
from tests.support.cluster import Cluster
from tests.support.ring_bench import NAME, SYNC_PERIOD, Bench
from tests.support.values import DEMO, A, B, ring


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
        cluster.cache._ring_feed.rings[DEMO] = stale
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


async def test_a_ring_that_went_while_its_configuration_was_applied_needs_no_status() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)

        assert await bench.controller._reports.write(RingName("gone")) is None


async def test_conditions_are_shown_as_metrics_while_this_replica_leads() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        await bench.reconcile()
        shown = dict(cluster.metrics.conditions[DEMO])
        bench.controller.hide()

    assert shown == {"Ready": "True", "Stalled": "False"}
    assert not cluster.metrics.conditions


async def test_the_conditions_of_a_deleted_ring_are_hidden() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        await bench.reconcile()
        await cluster.delete_ring()
        await cluster.settle()
        await bench.reconcile()

    assert not cluster.metrics.conditions


async def test_a_ring_over_leases_is_not_ready_and_says_why() -> None:
    leases = RingResource(group="coordination.k8s.io", resource="leases")
    cluster = Cluster(structs.replace(ring(), spec=RingSpec(resources=(leases,))))

    async with cluster.watched(A):
        bench = Bench(cluster)
        await bench.reconcile()

        ready = await bench.ready()
        assert (ready.status, ready.reason) == ("False", "InvalidSpec")
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

    assert (ready.status, ready.reason) == ("False", "DuplicateShardNames")
    assert "shards in two namespaces have the same name" in ready.message


async def test_a_ring_that_slipped_in_is_not_ready_until_it_is_fixed() -> None:
    secrets = RingResource(resource="secrets")
    cluster = Cluster(structs.replace(ring(), spec=RingSpec(resources=(secrets, secrets))))

    async with cluster.watched(A):
        bench = Bench(cluster)
        await bench.reconcile()
        before = await bench.ready()
        await cluster.put_ring(ring(generation=2))
        await cluster.settle()
        await bench.reconcile()

        assert (before.status, before.reason) == ("False", "InvalidSpec")
        assert before.message.startswith('spec.resources[1]: Duplicate value: "secrets": ')
        assert (await bench.ready()).status == "True"
    assert list(bench.configurations.bodies) == [NAME]


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_ring_that_cannot_be_read_keeps_its_configuration_and_is_reported(
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

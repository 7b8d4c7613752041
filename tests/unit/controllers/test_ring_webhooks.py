"""Facts about the webhook configuration of a ring."""

import pytest

from sharder.core.api.meta import Json
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import Conflict, Forbidden, Rejected, Unavailable
from sharder.core.names import APP_LABEL, RING_LABEL, ObjectRef, RingName
from tests.support.cluster import Cluster
from tests.support.ring_bench import NAME, SYNC_PERIOD, TOKEN, Bench, counted
from tests.support.values import DEMO, A, B, C, ring

OURS = {APP_LABEL[0]: APP_LABEL[1]}


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


async def test_a_configuration_follows_the_namespaces_of_the_shards() -> None:
    cluster = Cluster()
    named = list[bool]()

    async with cluster.watched(A):
        bench = Bench(cluster)
        for shard, namespace in ((C, "default"), (B, "other")):
            await bench.reconcile()
            await cluster.join(shard, namespace=namespace)
            await cluster.settle()
            await bench.reconcile()
            body = str(bench.configurations.bodies[NAME])
            named.append("system:serviceaccount:other:" in body)

    assert named == [False, True]
    assert bench.configurations.applies == 2


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


async def test_the_reason_why_a_configuration_cannot_be_applied_contains_no_token() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        why = f'url: Invalid value: "https://sharder/{TOKEN}/web"'
        bench.configurations.store.fail(Rejected(why))
        with pytest.raises(Rejected) as error:
            await bench.reconcile()

        assert "https://sharder/…/web" in (await bench.ready()).message
    assert TOKEN not in str(error.value)


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


async def test_what_is_left_of_rings_that_went_while_no_replica_led_is_found() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster)
        await bench.reconcile()
        await bench.add_configuration("gone", **OURS)
        await bench.add_configuration("of-another-owner")

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


async def test_the_configuration_is_looked_at_in_its_own_time_while_counts_wait() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        bench = Bench(cluster, sync_period=20.0)
        bench.stats = counted(10)
        await bench.reconcile()
        bench.stats = counted(11)

        assert await bench.reconcile() == 20

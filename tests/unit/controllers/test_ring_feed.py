"""Facts about rings that come, go, and cannot be read."""

from asyncio import TaskGroup

from sharder.core.errors import Forbidden
from sharder.core.names import ObjectRef, RingName
from tests.support.cluster import Cluster, RecordedChanges
from tests.support.values import DEMO, A, ring

OTHER = RingName("other")


async def test_a_ring_that_is_gone_has_no_snapshot_and_is_reported() -> None:
    cluster, changes = Cluster(), RecordedChanges()

    async with cluster.watched(A):
        before = cluster.snapshot
        with cluster.cache.subscribed(changes.subscriber()):
            changes.forget()
            await cluster.delete_ring()
            await cluster.settle()

        assert cluster.cache.snapshot(DEMO) is None
        assert not cluster.cache.is_current(before)
    assert (changes.rings, changes.steps) == ([DEMO], [DEMO])


async def test_a_ring_that_went_while_the_watch_was_broken_is_gone() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await cluster.delete_ring_unseen()
        await cluster.clock.advance(5)

        assert cluster.cache.snapshot(DEMO) is None


async def test_a_ring_that_was_made_anew_supersedes_the_old_one() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        before = cluster.snapshot
        await cluster.delete_ring()
        await cluster.put_ring(ring(uid="another"))
        await cluster.settle()

        assert not cluster.cache.is_current(before)


async def test_a_ring_that_is_known_and_has_no_snapshot_yet_is_not_gone() -> None:
    cluster = Cluster()
    cluster.namespaces.fail(Forbidden("namespaces is forbidden"))
    await cluster.put_ring(ring())

    async with TaskGroup() as group:
        following = group.create_task(cluster.follow())
        await cluster.settle()
        known = cluster.cache.knows(DEMO), cluster.cache.snapshot(DEMO)
        following.cancel()

    assert known == (True, None)
    assert not cluster.cache.knows(OTHER)


async def test_a_list_of_rings_that_are_the_same_rebuilds_nothing() -> None:
    cluster, changes = Cluster(), RecordedChanges()

    async with cluster.watched(A):
        before = cluster.snapshot
        with cluster.cache.subscribed(changes.subscriber()):
            changes.forget()
            cluster.rings.compact()
            await cluster.rings.create("", {"metadata": {"name": "x", "generation": 1}})
            cluster.rings.compact()
            cluster.rings.hang_up()
            await cluster.clock.advance(5)

        assert cluster.snapshot is before
    assert changes.rings == ["x"]


async def test_a_ring_that_cannot_be_read_any_more_goes_on_as_it_was() -> None:
    cluster, changes = Cluster(), RecordedChanges()

    async with cluster.watched(A):
        before = cluster.snapshot
        with cluster.cache.subscribed(changes.subscriber()):
            changes.forget()
            await cluster.break_ring()
            await cluster.settle()
            broken = cluster.cache.unreadable(DEMO)
            cluster.rings.compact()
            cluster.rings.hang_up()
            await cluster.clock.advance(5)
            told_first = list(changes.rings)
            await cluster.rings.patch(
                ObjectRef("", DEMO), {"spec": {"placement": {"strategy": None}}}
            )
            await cluster.settle()

        assert cluster.snapshot.epoch is before.epoch
    assert broken is not None
    assert DEMO in told_first
    assert cluster.cache.unreadable(DEMO) is None
    assert len(changes.rings) > len(told_first)


async def test_a_ring_that_was_never_read_is_there_and_has_no_snapshot() -> None:
    cluster, changes = Cluster(), RecordedChanges()
    await cluster.put_ring(ring(OTHER, uid="other"))
    await cluster.break_ring(OTHER)

    async with cluster.watched(A):
        with cluster.cache.subscribed(changes.subscriber()):
            first = list(changes.rings)
            known = cluster.cache.knows(OTHER), cluster.cache.snapshot(OTHER)
            await cluster.delete_ring(OTHER)
            await cluster.settle()

    assert first == [DEMO, OTHER]
    assert known == (True, None)
    assert not cluster.cache.knows(OTHER)


async def test_a_ring_that_cannot_be_read_is_not_the_one_before_of_its_name() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await cluster.delete_ring_unseen()
        await cluster.put_ring(ring())
        await cluster.break_ring()
        cluster.rings.compact()
        cluster.rings.hang_up()
        await cluster.clock.advance(5)

        assert cluster.cache.snapshot(DEMO) is None
        assert cluster.cache.knows(DEMO)

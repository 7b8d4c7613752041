"""Facts about when snapshots follow what has changed."""

from dataclasses import replace
from itertools import pairwise

import pytest

from sharder.controllers.cache_events import BURST, PACE_SECONDS, PIECE, REST, Subscriber
from sharder.core.api.meta import Json
from sharder.core.errors import Expired
from sharder.core.leases.membership import Standing
from sharder.core.names import SHARDER_IDENTITY, ObjectRef, RingName, ShardName
from sharder.runtime.event_loop import SLICE_SECONDS
from tests.support.cluster import Cluster, RecordedChanges
from tests.support.values import DEMO, A, B, C, D, ring


def slow(cluster: Cluster, changes: RecordedChanges) -> Subscriber:
    """A subscriber that keeps the event loop busy for half a second with each new snapshot."""

    def ring(name: RingName) -> None:
        cluster.clock._elapsed += 0.5
        changes.rings.append(name)

    return Subscriber(
        ring=ring,
        steps=changes.steps.append,
        scope=lambda name, _: ring(name),
        lease=changes.leases.append,
    )


async def test_leases_that_come_while_others_have_to_wait_are_followed_up_together() -> None:
    cluster, changes = Cluster(), RecordedChanges()

    async with cluster.watched(A):
        with cluster.cache.subscribed(slow(cluster, changes)):
            await cluster.join(B)
            await cluster.settle()
            changes.forget()
            await cluster.join(C)
            await cluster.join(D)
            await cluster.settle()
            before = (
                cluster.snapshot.members.available,
                list(changes.rings),
                list(changes.leases),
            )
            await cluster.clock.advance(2.1)
            after = (cluster.snapshot.members.available, changes.rings, set(changes.leases))

    leases = {ObjectRef("default", C), ObjectRef("default", D)}
    assert before == (frozenset({A, B}), [], [])
    assert after == (frozenset({A, B, C, D}), [DEMO], leases)


async def test_a_lease_that_comes_later_is_followed_up_at_once_again() -> None:
    cluster, changes = Cluster(), RecordedChanges()

    async with cluster.watched(A):
        with cluster.cache.subscribed(slow(cluster, changes)):
            await cluster.join(B)
            await cluster.settle()
            await cluster.clock.advance(2.1)
            await cluster.join(C)
            await cluster.settle()

            assert cluster.snapshot.members.available == {A, B, C}


async def test_a_return_of_a_shard_is_known_before_its_ring_is_rebuilt() -> None:
    cluster, changes = Cluster(), RecordedChanges()

    async with cluster.watched(A, B, C):
        await cluster.leave(B)
        await cluster.leave(C)
        await cluster.settle()
        with cluster.cache.subscribed(slow(cluster, changes)):
            await cluster.join(D)
            await cluster.settle()
            await cluster.write_lease(B, holderIdentity=B)
            await cluster.settle()
            snapshot, membership = cluster.snapshot, cluster.cache.membership
            found = [membership.is_back(DEMO, shard) for shard in (A, B, C, D)]
            await cluster.clock.advance(2.1)

    assert snapshot.members.standing_of(B) is Standing.GONE
    assert found == [False, True, False, False]
    assert cluster.snapshot.members.standing_of(B) is Standing.AVAILABLE
    assert not cluster.cache.membership.is_back(DEMO, B)


@pytest.mark.parametrize("is_asked", [True, False])
async def test_a_caller_that_saw_an_outdated_snapshot_is_notified_of_the_next_one(
    is_asked: bool,
) -> None:
    cluster, changes = Cluster(), RecordedChanges()

    async with cluster.watched(A):
        with cluster.cache.subscribed(slow(cluster, changes)):
            await cluster.join(B)
            await cluster.settle()
            changes.forget()
            # Nothing has changed: the next snapshot decides like this one.
            cluster.cache._throttle.add([DEMO])
            if is_asked:
                cluster.cache.is_current(cluster.snapshot)
            await cluster.clock.advance(2.1)

    assert changes.steps == [DEMO] * is_asked


async def test_leases_that_come_and_go_supersede_what_is_decided_at_a_bounded_pace() -> None:
    cluster, seconds = Cluster(), 20
    epochs, changes = [], RecordedChanges()

    async with cluster.watched(A):
        with cluster.cache.subscribed(changes.subscriber()):
            for number in range(seconds * 10):
                name = ShardName(f"forged-{number}")
                await cluster.join(name)
                await cluster.settle()
                await cluster.delete_lease(name)
                await cluster.clock.advance(0.1)
                epochs.append(cluster.snapshot.epoch)

    superseded = sum(one is not other for one, other in pairwise(epochs))
    assert BURST + seconds / PACE_SECONDS < 20  # of 400 changes
    assert superseded <= 20
    assert len(changes.rings) <= 20


async def test_leases_that_are_listed_anew_are_reported_in_slices() -> None:
    cluster, changes = Cluster(), list[ObjectRef]()

    def slow_lease(ref: ObjectRef) -> None:
        cluster.clock._elapsed += SLICE_SECONDS / PIECE
        changes.append(ref)

    subscriber = replace(RecordedChanges().subscriber(), lease=slow_lease)
    async with cluster.watched(A):
        for number in range(5 * PIECE):
            await cluster.join(ShardName(f"shard-{number}"))
        await cluster.clock.advance(60)
        with cluster.cache.subscribed(subscriber):
            changes.clear()
            cluster.leases.fail(Expired("too old"))
            cluster.leases.hang_up()
            await cluster.settle()
            pieces = [len(changes)]
            while len(changes) < 5 * PIECE:
                await cluster.clock.advance((1 + REST) * SLICE_SECONDS)
                pieces.append(len(changes))

    assert max(after - before for before, after in pairwise([0, *pieces])) <= 2 * PIECE


async def test_a_dead_shard_is_known_to_be_gone_while_leases_come_and_go() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        for number in range(50):
            await cluster.join(ShardName(f"forged-{number}"))
            await cluster.clock.advance(0.02)
        await cluster.write_lease(B, holderIdentity=SHARDER_IDENTITY)
        for number in range(50, 200):
            await cluster.join(ShardName(f"forged-{number}"))
            await cluster.clock.advance(0.02)

        assert cluster.snapshot.members.standing_of(B) is Standing.GONE


async def test_a_lease_that_is_touched_and_makes_no_shard_rebuilds_nothing() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await cluster.join(B, seconds=0)
        await cluster.settle()
        before = cluster.snapshot
        for number in range(20):
            touch: Json = {"metadata": {"annotations": {"touched": str(number)}}}
            await cluster.leases.patch(ObjectRef("default", B), touch)
            await cluster.clock.advance(1)

        assert cluster.snapshot is before


async def test_a_namespace_that_is_yet_to_be_followed_up_stops_no_write_and_a_ring_does() -> None:
    # Where the loop is left to others between rings, they see some rings as they were.
    cluster, changes = Cluster(), RecordedChanges()

    async with cluster.watched(A):
        with cluster.cache.subscribed(slow(cluster, changes)):
            await cluster.add_namespace("first")
            await cluster.settle()
            await cluster.add_namespace("second")
            await cluster.settle()
            snapshot = cluster.snapshot
            stands = cluster.cache.is_current(snapshot)
            await cluster.put_ring(ring(generation=2))
            await cluster.settle()
            stood = cluster.cache.is_current(snapshot)

    assert "second" not in snapshot.namespaces
    assert (stands, stood) == (True, False)


async def test_rings_are_rebuilt_one_by_one_where_each_keeps_the_loop_busy() -> None:
    cluster, changes = Cluster(), RecordedChanges()
    names = [RingName(f"ring-{number}") for number in range(5)]
    for name in names:
        await cluster.put_ring(ring(name, uid=name))

    async with cluster.watched(A):
        with cluster.cache.subscribed(slow(cluster, changes)):
            changes.forget()
            await cluster.add_namespace("new")
            await cluster.settle()
            at_once = len(changes.rings)
            await cluster.clock.advance(60)

    assert at_once <= 2
    assert set(changes.rings) == {DEMO, *names}

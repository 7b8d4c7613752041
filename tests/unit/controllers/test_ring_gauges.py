"""Facts about rings and shards as series."""

from collections import Counter
from datetime import timedelta

from sharder.controllers.ring_gauges import Gauges
from sharder.core.api.lease import format_time
from sharder.core.names import RingName, ShardName
from tests.support.cluster import Cluster
from tests.support.values import DEMO, A, B, C, ring


class Board:
    """Series as they are now."""

    def __init__(self) -> None:
        self.calculations = Counter[RingName]()
        self.rings: dict[RingName, tuple[int, int, int, int]] = {}
        self.invalid: dict[RingName, int] = {}
        self.shards: dict[tuple[RingName, str], str] = {}
        self.unreadable: dict[RingName, bool] = {}

    def calculated(self, ring: RingName) -> None:
        self.calculations[ring] += 1

    def set_ring(
        self,
        ring: RingName,
        *,
        uid: str,
        generation: int,
        observed_generation: int,
        shards: int,
        available_shards: int,
        invalid_leases: int,
    ) -> None:
        assert uid
        self.rings[ring] = (generation, observed_generation, shards, available_shards)
        self.invalid[ring] = invalid_leases

    def set_shard(
        self, ring: RingName, *, namespace: str, shard: ShardName, uid: str, state: str
    ) -> None:
        assert (namespace, bool(uid)) == ("default", True)
        self.shards[ring, shard] = state

    def set_unreadable(self, ring: RingName, *, unreadable: bool) -> None:
        self.unreadable[ring] = unreadable

    def remove_ring(self, ring: RingName) -> None:
        self.rings.pop(ring, None)
        self.shards = {key: state for key, state in self.shards.items() if key[0] != ring}

    def remove_shard(self, ring: RingName, *, namespace: str, shard: ShardName) -> None:
        assert namespace == "default"
        del self.shards[ring, shard]


async def test_rings_and_shards_are_shown_as_they_are() -> None:
    cluster, board = Cluster(), Board()

    async with cluster.watched(A, B):
        gauges = Gauges(cluster.cache, board, cluster.clock)
        with cluster.cache.subscribed(gauges.subscriber()):
            await cluster.leave(B)
            await cluster.settle()

    assert board.rings == {DEMO: (1, 0, 2, 1)}
    assert board.shards == {(DEMO, A): "ready", (DEMO, B): "dead"}


async def test_a_shard_whose_clock_is_an_hour_behind_is_shown_as_ready() -> None:
    cluster, board = Cluster(), Board()

    async with cluster.watched(A):
        gauges = Gauges(cluster.cache, board, cluster.clock)
        with cluster.cache.subscribed(gauges.subscriber()):
            behind = format_time(cluster.clock.now() - timedelta(hours=1))
            await cluster.write_lease(A, renewTime=behind)
            await cluster.settle()

    assert board.shards == {(DEMO, A): "ready"}


async def test_a_hash_ring_is_counted_when_it_was_built_and_not_when_it_was_kept() -> None:
    cluster, board = Cluster(), Board()

    async with cluster.watched(A):
        gauges = Gauges(cluster.cache, board, cluster.clock)
        with cluster.cache.subscribed(gauges.subscriber()):
            await cluster.add_namespace("more")
            await cluster.settle()
            kept = board.calculations[DEMO]
            await cluster.join(B)
            await cluster.settle()

    assert (kept, board.calculations[DEMO]) == (1, 2)


async def test_a_ring_that_is_gone_takes_its_shards_along_and_they_come_back_with_it() -> None:
    cluster, board = Cluster(), Board()

    async with cluster.watched(A):
        gauges = Gauges(cluster.cache, board, cluster.clock)
        with cluster.cache.subscribed(gauges.subscriber()):
            await cluster.delete_ring()
            await cluster.settle()
            gone = (dict(board.rings), dict(board.shards))
            await cluster.put_ring(ring())
            await cluster.settle()

    assert gone == ({}, {})
    assert board.shards == {(DEMO, A): "ready"}


async def test_an_invalid_lease_is_counted_and_shown_as_no_shard() -> None:
    cluster, board = Cluster(), Board()

    async with cluster.watched(A):
        gauges = Gauges(cluster.cache, board, cluster.clock)
        with cluster.cache.subscribed(gauges.subscriber()):
            await cluster.join(ShardName("x" * 80))
            await cluster.settle()

    assert board.invalid == {DEMO: 1}
    assert (board.rings[DEMO], board.shards) == ((1, 0, 1, 1), {(DEMO, A): "ready"})


async def test_a_shard_without_a_ring_is_not_shown() -> None:
    cluster, board = Cluster(), Board()

    async with cluster.watched(A):
        gauges = Gauges(cluster.cache, board, cluster.clock)
        with cluster.cache.subscribed(gauges.subscriber()):
            await cluster.join(C, of="unknown")
            await cluster.settle()

    assert board.shards == {(DEMO, A): "ready"}


async def test_a_shard_that_is_gone_is_shown_no_more() -> None:
    cluster, board = Cluster(), Board()

    async with cluster.watched(A, B):
        gauges = Gauges(cluster.cache, board, cluster.clock)
        with cluster.cache.subscribed(gauges.subscriber()):
            await cluster.delete_lease(A)
            await cluster.delete_lease_unseen(B)
            await cluster.clock.advance(2)

    assert board.shards == {}


async def test_a_shard_that_changes_its_ring_is_shown_there() -> None:
    cluster, board = Cluster(), Board()
    await cluster.put_ring(ring("other"))

    async with cluster.watched(A):
        gauges = Gauges(cluster.cache, board, cluster.clock)
        with cluster.cache.subscribed(gauges.subscriber()):
            await cluster.move_lease(A, "other")
            await cluster.settle()

    assert board.shards == {("other", A): "ready"}


async def test_a_shard_whose_lease_becomes_invalid_is_shown_no_more() -> None:
    cluster, board = Cluster(), Board()

    async with cluster.watched(A):
        gauges = Gauges(cluster.cache, board, cluster.clock)
        with cluster.cache.subscribed(gauges.subscriber()):
            await cluster.write_lease(A, leaseDurationSeconds=0)
            await cluster.settle()

    assert board.shards == {}


async def test_a_ring_that_cannot_be_read_is_shown_until_it_can() -> None:
    cluster, board, seen = Cluster(), Board(), list[bool]()

    async with cluster.watched(A):
        with cluster.cache.subscribed(Gauges(cluster.cache, board, cluster.clock).subscriber()):
            seen.append(board.unreadable[DEMO])
            await cluster.break_ring()
            await cluster.settle()
            seen.append(board.unreadable[DEMO])
            await cluster.delete_ring()
            await cluster.settle()
            seen.append(board.unreadable[DEMO])

    assert seen == [False, True, False]

"""Facts about counting a ring anew after its objects have come, gone or moved."""

from asyncio import TaskGroup
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sharder.controllers.counting.live_counts import LiveCounts
from sharder.controllers.counting.object_count import COUNT_SECONDS, SETTLE_SECONDS, ObjectCount
from sharder.controllers.counting.unread_parts import UnreadParts
from sharder.core.api.ring import (
    ControllerRing,
    PlacementSpec,
    RingResource,
    RingSpec,
    StrategyName,
)
from sharder.core.errors import Expired, Forbidden, Unavailable
from sharder.core.names import GroupResource, RingName, ShardName
from sharder.core.status.stats import ObjectStats, Waiting
from tests.support.cluster import Cluster
from tests.support.hooked_objects import Call, on, once, raising
from tests.support.values import DEMO, SECRETS, WIDGETS, A, B, ring

OTHER = RingName("other")


def over_secrets(strategy: StrategyName = StrategyName.CONSISTENT_HASH) -> ControllerRing:
    spec = RingSpec(
        resources=(RingResource(resource="secrets"),), placement=PlacementSpec(strategy=strategy)
    )
    return ControllerRing(metadata=ring().metadata, spec=spec)


class Bench:
    """A count, and what it has published."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.published: list[ObjectStats] = []
        self.live = LiveCounts(lambda _: Counter())
        self.unread = UnreadParts(on_change=lambda _: None, clock=cluster.clock, rng=cluster.rng)
        self.count = ObjectCount(
            cache=cluster.cache,
            objects=cluster.objects,
            live=self.live,
            unread=self.unread,
            counted=self._publish,
            clock=cluster.clock,
            rng=cluster.rng,
        )

    def _publish(self, name: RingName) -> None:
        assert name == DEMO
        stats = self.live.stats(self.cluster.snapshot, Waiting(None, None))
        self.published.append(stats)

    @property
    def counts(self) -> list[tuple[int, int, int, dict[ShardName, int]]]:
        return [(f.objects, f.unassigned, f.draining, {**f.by_shard}) for f in self.published]

    @property
    def lists(self) -> int:
        return self.asked("list")

    def asked(self, verb: str, resource: GroupResource = SECRETS) -> int:
        return len([c for c in self.cluster.objects.calls if c[:2] == (verb, resource)])


@asynccontextmanager
async def counting(demo: ControllerRing | None = None) -> AsyncIterator[Bench]:
    """Yield a count of a ring with two shards and two Secrets that was counted a moment ago."""
    cluster = Cluster(demo or over_secrets())
    bench = Bench(cluster)
    await cluster.add(SECRETS, "one", owner=A)
    await cluster.add(SECRETS, "two", owner=A)
    async with cluster.watched(A, B, seconds=3600), TaskGroup() as group:
        task = group.create_task(bench.count.run())
        bench.count.passed(DEMO)
        await cluster.clock.advance(COUNT_SECONDS)
        try:
            yield bench
        finally:
            task.cancel()


async def test_a_ring_in_which_nothing_happens_is_not_counted_again() -> None:
    async with counting() as bench:
        await bench.cluster.clock.advance(3600)

    assert bench.counts == [(2, 0, 0, {A: 2})]
    assert (bench.lists, bench.asked("watch")) == (1, 1)


async def test_objects_that_move_are_counted_where_they_are_soon_after() -> None:
    async with counting() as bench:
        await bench.cluster.clock.advance(300)
        moved = await bench.cluster.store(SECRETS).list()
        await bench.cluster.label(moved.items[0], SECRETS, owner=B)
        bench.count.moved(DEMO)
        await bench.cluster.clock.advance(SETTLE_SECONDS)

    assert bench.counts[1:] == [(2, 0, 0, {A: 1, B: 1})]


async def test_what_the_webhook_assigns_anywhere_and_what_is_deleted_is_counted() -> None:
    async with counting() as bench:
        await bench.cluster.clock.advance(300)
        obj = await bench.cluster.add(SECRETS, "three", owner=B)
        await bench.cluster.clock.advance(COUNT_SECONDS)
        created = bench.counts[1:]
        await bench.cluster.clock.advance(300)
        await bench.cluster.delete(obj, SECRETS)
        await bench.cluster.clock.advance(COUNT_SECONDS)

    assert created == [(3, 0, 0, {A: 2, B: 1})]
    assert bench.counts[2:] == [(2, 0, 0, {A: 2})]


async def test_however_much_moves_a_ring_is_counted_every_thirty_seconds_at_most() -> None:
    async with counting() as bench:
        for number in range(120):
            await bench.cluster.add(SECRETS, f"new-{number}", owner=B)
            bench.count.moved(DEMO)
            await bench.cluster.clock.advance(1)

    assert bench.lists == 5
    assert bench.counts[-1] == (122, 0, 0, {A: 2, B: 120})


async def test_an_object_that_changes_and_stays_costs_no_count() -> None:
    async with counting() as bench:
        for number in range(60):
            await bench.cluster.label(
                (await bench.cluster.store(SECRETS).list()).items[0], SECRETS, x=str(number)
            )
            await bench.cluster.clock.advance(1)

    assert len(bench.counts) == 1


async def test_objects_outside_of_the_ring_cost_no_count() -> None:
    async with counting() as bench:
        bench.cluster.store(SECRETS)
        await bench.cluster.add(SECRETS, "far", owner=A, namespace="unknown")
        await bench.cluster.clock.advance(300)

    assert len(bench.counts) == 1


async def test_a_ring_with_a_tally_or_without_a_snapshot_is_not_counted() -> None:
    async with counting(over_secrets(StrategyName.BOUNDED_LOAD)) as bench:
        bench.count.moved(DEMO)
        bench.count.moved(OTHER)
        await bench.cluster.clock.advance(300)

    assert bench.counts == []
    assert bench.lists == 0


async def test_a_ring_that_has_been_watched_is_not_counted_because_of_a_pass() -> None:
    async with counting() as bench:
        for _ in range(5):
            bench.count.passed(DEMO)
            await bench.cluster.clock.advance(300)

    assert bench.lists == 1


@pytest.mark.parametrize(
    ("error", "counts"), [(Unavailable("no route"), 1), (Expired("too old"), 2)]
)
async def test_a_watch_that_breaks_goes_on_or_is_counted_anew(
    error: Exception, counts: int
) -> None:
    async with counting() as bench:
        bench.cluster.objects.before.append(on("watch", SECRETS, once(lambda: _raise(error))))
        bench.cluster.store(SECRETS).hang_up()
        await bench.cluster.clock.advance(120)
        first = len(bench.counts)
        await bench.cluster.add(SECRETS, "three", owner=B)
        await bench.cluster.clock.advance(120)

    assert first == counts
    assert bench.counts[-1] == (3, 0, 0, {A: 2, B: 1})


async def _raise(error: Exception) -> None:
    raise error


async def test_without_the_right_to_watch_only_what_moves_is_counted() -> None:
    asked = list[Call]()

    async def note(call: Call) -> None:
        asked.append(call)

    cluster = Cluster(over_secrets())
    bench = Bench(cluster)
    forbidden = on("watch", SECRETS, raising(Forbidden("watch is forbidden")))
    cluster.objects.before += [on("watch", SECRETS, note), forbidden]
    async with cluster.watched(A), TaskGroup() as group:
        task = group.create_task(bench.count.run())
        bench.count.moved(DEMO)
        await cluster.clock.advance(300)
        await cluster.add(SECRETS, "three", owner=A)
        await cluster.clock.advance(300)
        quiet = len(bench.counts), len(asked)
        bench.count.moved(DEMO)
        await cluster.clock.advance(300)
        task.cancel()

    assert quiet == (1, 1)
    assert bench.counts[-1] == (1, 0, 0, {A: 1})


async def test_objects_that_are_drained_or_wait_are_counted_as_such() -> None:
    async with counting() as bench:
        await bench.cluster.add(SECRETS, "three", owner=B, draining=True)
        await bench.cluster.add(SECRETS, "four")
        await bench.cluster.clock.advance(COUNT_SECONDS)

    assert bench.counts[-1] == (4, 1, 1, {A: 2, B: 1})
    assert not bench.asked("list", WIDGETS)

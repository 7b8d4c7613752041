"""What the leader does about a tally that changes."""

from asyncio import TaskGroup
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec import structs

from sharder.controllers.counting.monitor import MAX_PAUSE_SECONDS, TallyMonitor
from sharder.core.api.meta import Json
from sharder.core.api.ring import ControllerRing, MovementSpec
from sharder.core.names import EVACUATE_ANNOTATION, ObjectRef, RingName
from tests.support.cluster import Cluster
from tests.support.counting import bounded, counted, tally_of
from tests.support.values import DEMO, WIDGETS, A, B, ring

SOON = 1.0


class Asked:
    """What a monitor asks for."""

    def __init__(self) -> None:
        self.resyncs: list[RingName] = []
        self.looks: list[RingName] = []
        self.reports: list[RingName] = []

    def note(self, what: str, name: RingName) -> None:
        kinds = {"resyncs": self.resyncs, "looks": self.looks, "reports": self.reports}
        kinds[what].append(name)

    def clear(self) -> None:
        self.resyncs, self.looks, self.reports = [], [], []


@asynccontextmanager
async def watching(demo: ControllerRing, full: int = 0) -> AsyncIterator[tuple[Cluster, Asked]]:
    """Let a monitor look, with `full` objects on A; it has asked for its first pass."""
    cluster, asked = Cluster(demo), Asked()
    for number in range(full):
        await cluster.add(WIDGETS, f"w-{number}", owner=A)
    monitor = TallyMonitor(
        cache=cluster.cache,
        resync=lambda name: asked.note("resyncs", name),
        recheck=lambda name: asked.note("looks", name),
        report=lambda name: asked.note("reports", name),
        clock=cluster.clock,
    )
    async with counted(cluster, A, B), TaskGroup() as group:
        task = group.create_task(monitor.run())
        await cluster.clock.advance(SOON)
        try:
            yield cluster, asked
        finally:
            task.cancel()


async def test_a_ring_is_passed_over_when_all_its_objects_are_counted_first() -> None:
    async with watching(bounded()) as (_, asked):
        assert asked.resyncs == [DEMO]


async def test_a_ring_whose_strategy_follows_is_left_alone() -> None:
    async with watching(ring()) as (_, asked):
        assert (asked.resyncs, asked.looks, asked.reports) == ([], [], [])


async def test_a_shard_above_its_ceiling_has_the_ring_passed_over_within_2_seconds() -> None:
    async with watching(bounded(2), full=2) as (cluster, asked):
        asked.clear()
        await cluster.add(WIDGETS, "third", owner=A)
        await cluster.clock.advance(2)

        assert asked.resyncs == [DEMO]


@pytest.mark.parametrize("others", [False, True], ids=["nothing changes", "others come"])
async def test_an_excess_that_stays_is_asked_for_again_ever_more_rarely(others: bool) -> None:
    async with watching(bounded(2), full=3) as (cluster, asked):
        first, again = cluster.clock.monotonic() - SOON, list[float]()
        for number in range(int(2 + 4 + 8 + 16 + 2 * MAX_PAUSE_SECONDS)):
            asked.clear()
            if others:  # the counts change, the excess does not
                await cluster.add(WIDGETS, f"other-{number}", owner="stranger")
            await cluster.clock.advance(1)
            again += [cluster.clock.monotonic() - first] * len(asked.resyncs)

        assert again == [2, 6, 14, 30, 60, 90]


async def test_an_excess_that_grows_is_asked_for_at_once() -> None:
    async with watching(bounded(2), full=3) as (cluster, asked):
        await cluster.clock.advance(20)
        asked.clear()
        await cluster.add(WIDGETS, "fourth", owner=A)
        await cluster.clock.advance(SOON)

        assert asked.resyncs == [DEMO]


async def test_an_excess_that_shrinks_is_being_seen_to() -> None:
    async with watching(bounded(2), full=3) as (cluster, asked):
        fourth = await cluster.add(WIDGETS, "fourth", owner=A)
        await cluster.clock.advance(20)
        asked.clear()
        await cluster.delete(fourth, WIDGETS)
        await cluster.clock.advance(SOON)

        assert asked.resyncs == []


async def test_a_ceiling_that_is_lowered_leaves_an_excess_though_nothing_is_counted() -> None:
    async with watching(bounded(3), full=3) as (cluster, asked):
        asked.clear()
        await cluster.put_ring(bounded(2, generation=2))
        await cluster.clock.advance(SOON)

        assert asked.resyncs == [DEMO]


async def test_a_ring_whose_objects_had_to_be_listed_anew_is_passed_over_again() -> None:
    async with watching(bounded()) as (cluster, asked):
        tally = tally_of(cluster)
        asked.clear()
        tally.synced = False
        await cluster.clock.advance(SOON)
        before = list(asked.resyncs)
        tally.synced = True
        await cluster.clock.advance(SOON)

        assert (before, asked.resyncs) == ([], [DEMO])


async def test_while_objects_go_those_without_owner_are_tried_again_every_second() -> None:
    async with watching(bounded(2), full=2) as (cluster, asked):
        await cluster.add(WIDGETS, "waiting")
        tried: list[float] = []
        for number in range(10):
            asked.clear()
            if number < 4:  # 4 objects go, one each half second
                goes = await cluster.add(WIDGETS, f"short-lived-{number}", owner=B)
                await cluster.delete(goes, WIDGETS)
            await cluster.clock.advance(0.5)
            tried += [number] * len(asked.looks)

        assert tried == [0, 2, 4]


async def test_an_object_that_goes_has_those_without_owner_tried_again() -> None:
    async with watching(bounded(2), full=2) as (cluster, asked):
        waiting = await cluster.add(WIDGETS, "waiting")
        await cluster.clock.advance(SOON)
        before = list(asked.looks)
        await cluster.delete(await cluster.add(WIDGETS, "short-lived", owner=B), WIDGETS)
        await cluster.clock.advance(SOON)

        assert (before, asked.looks) == ([], [DEMO])
        assert waiting.metadata.name == "waiting"


async def test_nothing_is_tried_again_where_nothing_waits() -> None:
    async with watching(bounded(2), full=2) as (cluster, asked):
        await cluster.delete(await cluster.add(WIDGETS, "short-lived", owner=B), WIDGETS)
        await cluster.clock.advance(SOON)

        assert asked.looks == []


async def test_a_ring_that_runs_out_of_room_and_gets_some_again_is_reported_each_time() -> None:
    async with watching(bounded(1), full=1) as (cluster, asked):
        asked.clear()
        last = await cluster.add(WIDGETS, "last", owner=B)
        waiting = await cluster.add(WIDGETS, "waiting")
        await cluster.clock.advance(SOON)
        full = list(asked.reports)
        await cluster.delete(last, WIDGETS)
        await cluster.delete(waiting, WIDGETS)
        await cluster.clock.advance(SOON)

        assert (full, asked.reports) == ([DEMO], [DEMO, DEMO])


async def test_a_ring_that_was_made_anew_is_passed_over_anew() -> None:
    async with watching(bounded()) as (cluster, asked):
        await cluster.delete_ring()
        await cluster.clock.advance(SOON)
        await cluster.put_ring(bounded())
        await cluster.clock.advance(SOON)

        assert asked.resyncs == [DEMO, DEMO]


async def test_room_for_the_objects_of_a_shard_that_is_gone_has_the_ring_passed_over() -> None:
    async with watching(bounded(2), full=2) as (cluster, asked):
        for number in range(3):
            await cluster.add(WIDGETS, f"lost-{number}", owner="gone")
        kept = await cluster.add(WIDGETS, "kept", owner=B)
        await cluster.clock.advance(10)
        asked.clear()
        await cluster.delete(kept, WIDGETS)
        await cluster.clock.advance(3)

        assert (asked.resyncs, asked.looks) == ([DEMO], [])


@pytest.mark.parametrize(("paused", "passes"), [(False, [DEMO]), (True, [])])
async def test_room_for_what_an_evacuated_shard_has_has_the_ring_passed_over_unless_it_is_paused(
    paused: bool,
    passes: list[RingName],
) -> None:
    demo = bounded(2)
    still = structs.replace(demo.spec, movement=MovementSpec(paused=paused))
    async with watching(structs.replace(demo, spec=still), full=2) as (cluster, asked):
        said: Json = {"metadata": {"annotations": {EVACUATE_ANNOTATION: "true"}}}
        await cluster.leases.patch(ObjectRef("default", A), said)
        kept = await cluster.add(WIDGETS, "kept", owner=B)
        await cluster.clock.advance(10)
        asked.clear()
        await cluster.delete(kept, WIDGETS)
        await cluster.clock.advance(3)

        assert asked.resyncs == passes

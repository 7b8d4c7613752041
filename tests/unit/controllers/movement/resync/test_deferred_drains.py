"""Facts about passes over rings that limit how much moves at a time."""

from asyncio import Task, TaskGroup
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec import structs

from sharder.controllers.movement.resync.deferred_drains import (
    MAX_SECONDS,
    MAX_WAITING,
    MIN_SECONDS,
    RETRY_SECONDS,
    WAIT_SECONDS,
    DeferredDrains,
)
from sharder.controllers.movement.resync.resync import AGAIN_SECONDS, LATE_SECONDS
from sharder.controllers.movement.writes.drain_budget import DrainDeferred
from sharder.core.api.ring import ControllerRing, MovementSpec
from sharder.core.movement.step import Drain
from sharder.core.names import ObjectRef
from tests.support.cluster import Cluster
from tests.support.counting import bounded, counted
from tests.support.movement import moving, resync
from tests.support.values import DEMO, WIDGETS, A, B, C, ring

SOON = 0.5
"""Longer than a pass that waits for nothing takes, shorter than it waits for room."""


def limited(movement: MovementSpec, of: ControllerRing | None = None) -> ControllerRing:
    """Return a ring with these limits."""
    demo = of or ring()
    return structs.replace(demo, spec=structs.replace(demo.spec, movement=movement))


async def misplaced(cluster: Cluster, many: int) -> None:
    """Add Widgets that belong on B and are on A."""
    found = number = 0
    while found < many:
        name = f"w{number}"
        number += 1
        if cluster.snapshot.wanted(f"example.com/Widget/default/{name}") == B:
            await cluster.add(WIDGETS, name, owner=A)
            found += 1


async def draining(cluster: Cluster) -> list[str]:
    """Return the names of the Widgets that are being drained."""
    owners = await cluster.owners(WIDGETS)
    return [name for name, owner in owners.items() if owner.endswith("*")]


async def acknowledge(cluster: Cluster, name: str) -> None:
    widget = await cluster.store(WIDGETS).get(ObjectRef("default", name))
    await cluster.acknowledge(widget, WIDGETS)


@asynccontextmanager
async def passing(cluster: Cluster) -> AsyncIterator[Task[float | None]]:
    """Begin a pass, and let it come so far as it gets without time; end it where it waits."""
    async with TaskGroup() as group:
        task = group.create_task(resync(cluster).reconcile(DEMO))
        await cluster.settle()
        yield task
        task.cancel()


async def test_a_pass_that_finds_room_for_all_waits_for_nothing() -> None:
    cluster = Cluster(limited(MovementSpec(max_moves_per_minute=3)))

    async with cluster.watched(A, B):
        await misplaced(cluster, 3)
        async with passing(cluster) as task:
            pass

        assert task.result() == LATE_SECONDS
        assert len(await draining(cluster)) == 3


async def test_a_minute_that_is_used_up_is_not_waited_for_but_the_ring_is_passed_over_soon() -> (
    None
):
    cluster = Cluster(limited(MovementSpec(max_moves_per_minute=3)))

    async with cluster.watched(A, B):
        await misplaced(cluster, 5)
        async with passing(cluster) as first:
            pass
        after_first = len(await draining(cluster))
        await cluster.clock.advance(55)
        async with passing(cluster) as second:
            await cluster.clock.advance(5 + SOON)

    # The second has waited until a minute was over.
    assert (first.result(), after_first) == (MAX_SECONDS, 3)
    assert (second.result(), len(await draining(cluster))) == (LATE_SECONDS, 5)


async def test_room_that_comes_soon_is_waited_for() -> None:
    cluster = Cluster(limited(MovementSpec(max_concurrent_drains=1)))

    async with moving(cluster, A, B):
        await misplaced(cluster, 3)
        async with passing(cluster) as task:
            for _ in range(3):
                (name,) = await draining(cluster)
                await acknowledge(cluster, name)
                await cluster.clock.advance(SOON)

        assert task.result() == pytest.approx(LATE_SECONDS)
        assert set((await cluster.owners(WIDGETS)).values()) == {B}


async def test_a_pass_ends_ten_seconds_after_the_first_refusal() -> None:
    cluster = Cluster(limited(MovementSpec(max_concurrent_drains=1)))

    async with moving(cluster, A, B):
        await misplaced(cluster, 3)
        async with passing(cluster) as task:
            await cluster.clock.advance(WAIT_SECONDS - 2)
            before = task.done()
            await cluster.clock.advance(2)

            assert (before, task.done()) == (False, True)

        assert task.result() == MIN_SECONDS
        assert len(await draining(cluster)) == 1


async def test_while_it_waits_for_one_shard_a_pass_goes_on_with_another() -> None:
    cluster = Cluster(limited(MovementSpec(max_concurrent_drains=1)))

    async with cluster.watched(A, B, C):
        for number in range(30):
            await cluster.add(WIDGETS, f"w{number}", owner=(A, B, C)[number % 3])
        async with passing(cluster):
            owners = sorted(o for o in (await cluster.owners(WIDGETS)).values() if "*" in o)
            await cluster.clock.advance(WAIT_SECONDS + SOON)

    assert owners == [A + "*", B + "*", C + "*"]


async def test_what_waited_is_decided_again_and_not_written_if_it_is_in_place() -> None:
    cluster = Cluster(limited(MovementSpec(max_concurrent_drains=1)))

    async with moving(cluster, A, B):
        await misplaced(cluster, 2)
        async with passing(cluster):
            (drained,) = await draining(cluster)
            (waiting,) = set(await cluster.owners(WIDGETS)) - {drained}
            widget = await cluster.store(WIDGETS).get(ObjectRef("default", waiting))
            await cluster.label(widget, WIDGETS, owner=B)
            await acknowledge(cluster, drained)
            await cluster.clock.advance(SOON)

        assert set((await cluster.owners(WIDGETS)).values()) == {B}
        assert cluster.metrics.drains == 1


async def test_a_pass_that_is_superseded_ends_at_once_also_while_it_waits() -> None:
    cluster = Cluster(limited(MovementSpec(max_concurrent_drains=1)))

    async with moving(cluster, A, B):
        await misplaced(cluster, 2)
        async with passing(cluster) as task:
            await cluster.leave(B)
            await cluster.clock.advance(RETRY_SECONDS)

            assert task.done()

        assert task.result() == AGAIN_SECONDS


async def test_what_is_stranded_is_rescued_before_anything_waits() -> None:
    cluster = Cluster(limited(MovementSpec(max_moves_per_minute=1, max_concurrent_drains=1)))

    async with cluster.watched(A, B):
        await misplaced(cluster, 3)
        for number in range(20):
            await cluster.add(WIDGETS, f"stranded{number}", owner=C)
            await cluster.add(WIDGETS, f"orphan{number}")
        async with passing(cluster) as task:
            owners = await cluster.owners(WIDGETS)

            assert task.done()

    assert {owner for name, owner in owners.items() if name[0] in "so"} == {A, B}
    assert len(await draining(cluster)) == 1


async def test_a_shard_with_too_many_is_relieved_as_fast_as_the_ring_allows() -> None:
    cluster = Cluster(limited(MovementSpec(max_concurrent_drains=2), bounded(3)))
    for number in range(8):
        await cluster.add(WIDGETS, f"w{number}", owner=A)

    async with counted(cluster, A, B):
        async with passing(cluster) as task:
            await cluster.clock.advance(WAIT_SECONDS + SOON)

        assert task.result() == MIN_SECONDS
        assert len(await draining(cluster)) == 2


async def test_only_so_many_drains_wait_and_the_rest_is_left_to_the_next_pass() -> None:
    cluster = Cluster(limited(MovementSpec(max_concurrent_drains=1)))

    async with cluster.watched(A, B):
        widget, resource = await cluster.add(WIDGETS, "w"), await cluster.objects.find(WIDGETS)
        waiting = DeferredDrains(cluster.snapshot, mover=cluster.mover(), clock=cluster.clock)
        for _ in range(MAX_WAITING + 1):
            waiting.add(resource, widget, lambda _: Drain(A), DrainDeferred(A, "no room"))

        assert len(list(waiting.take())) == MAX_WAITING
        assert waiting.again_in() == MIN_SECONDS

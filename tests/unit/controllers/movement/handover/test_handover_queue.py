"""Facts about objects that wait for their next step."""

import random
from asyncio import TaskGroup
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sharder.controllers.movement.handover.handover_queue import (
    ACKNOWLEDGED_SECONDS,
    UNASSIGNED_SECONDS,
    HandoverQueue,
)
from sharder.controllers.movement.writes.dependents_list import UNKNOWN
from sharder.controllers.movement.writes.owner_transfer import AT_ONCE
from sharder.controllers.scope import ObjectKey, Part, ResourceKey
from sharder.core.names import ObjectRef, ShardName
from sharder.sdk.testing.fake_clock import FakeClock
from tests.support.values import DEMO, WIDGETS, A, B

RESOURCE_KEY = ResourceKey(DEMO, WIDGETS)
PART = Part(RESOURCE_KEY, "ns")
X, Y = ObjectRef("ns", "x"), ObjectRef("ns", "y")


class Taker:
    """Takes what is due, and keeps it with the time."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.waiting = HandoverQueue(clock=self.clock, rng=random.Random(0))
        self.taken: list[tuple[float, dict[ObjectRef, ShardName]]] = []

    async def take(self, part: Part) -> float | None:
        taken = self.waiting.take(part)
        if taken:
            self.taken.append((round(self.clock.monotonic(), 3), taken))
        return self.waiting.next_in(part)

    @asynccontextmanager
    async def taking(self) -> AsyncIterator[HandoverQueue]:
        async with TaskGroup() as group:
            task = group.create_task(self.waiting.run(self.take))
            await self.clock.advance(0)
            yield self.waiting
            task.cancel()


async def test_what_is_released_together_is_taken_together() -> None:
    taker = Taker()

    async with taker.taking() as waiting:
        waiting.add_released(RESOURCE_KEY, {X: A})
        await taker.clock.advance(ACKNOWLEDGED_SECONDS / 2)
        waiting.add_released(RESOURCE_KEY, {Y: B})
        await taker.clock.advance(1)

    assert taker.taken == [(0.05, {X: A}), (0.075, {Y: B})]


async def test_an_object_without_owner_is_looked_at_after_a_moment() -> None:
    taker = Taker()

    async with taker.taking() as waiting:
        waiting.add_unassigned(RESOURCE_KEY, [X, Y])
        await taker.clock.advance(1)

    assert taker.taken == [(UNASSIGNED_SECONDS, {X: UNKNOWN, Y: UNKNOWN})]


async def test_the_shard_that_released_an_object_stays_known_in_any_order_of_events() -> None:
    taker = Taker()

    async with taker.taking() as waiting:
        waiting.add_unassigned(RESOURCE_KEY, [X])
        waiting.add_released(RESOURCE_KEY, {X: A, Y: B})
        waiting.add_unassigned(RESOURCE_KEY, [Y])
        await taker.clock.advance(1)

    assert taker.taken == [(ACKNOWLEDGED_SECONDS, {X: A, Y: B})]


async def test_what_is_written_all_the_time_comes_all_the_same() -> None:
    taker = Taker()

    async with taker.taking() as waiting:
        for _ in range(10):
            waiting.add_unassigned(RESOURCE_KEY, [X])
            await taker.clock.advance(UNASSIGNED_SECONDS / 4)

    assert [at for at, _ in taker.taken] == [UNASSIGNED_SECONDS, 2 * UNASSIGNED_SECONDS]


async def test_what_is_held_back_does_not_come_before_its_time() -> None:
    taker = Taker()

    async with taker.taking() as waiting:
        waiting.retry(ObjectKey(RESOURCE_KEY, X), 10)
        for _ in range(20):
            waiting.add_unassigned(RESOURCE_KEY, [X])
            waiting.add_released(RESOURCE_KEY, {X: A})
            await taker.clock.advance(1)

    assert taker.taken[0] == (10.0, {X: UNKNOWN})


async def test_what_waits_already_can_be_held_back_and_has_no_known_shard_then() -> None:
    taker = Taker()

    async with taker.taking() as waiting:
        waiting.add_released(RESOURCE_KEY, {X: A})
        waiting.retry(ObjectKey(RESOURCE_KEY, X), 10)
        await taker.clock.advance(20)

    assert taker.taken == [(10.0, {X: UNKNOWN})]


async def test_what_is_put_back_gets_a_time_and_has_no_known_shard_any_more() -> None:
    taker = Taker()

    async with taker.taking() as waiting:
        waiting.put_back(PART, {Y: 3.0})
        waiting.add_released(RESOURCE_KEY, {Y: B})
        await taker.clock.advance(20)

    assert taker.taken == [(3.0, {Y: UNKNOWN})]


async def test_nothing_is_left_of_a_resource_that_is_forgotten() -> None:
    taker = Taker()

    async with taker.taking() as waiting:
        waiting.add_released(RESOURCE_KEY, {X: A})
        waiting.forget(RESOURCE_KEY)
        await taker.clock.advance(20)

    assert taker.taken == []
    assert taker.waiting.next_in(PART) is None


async def test_what_has_an_owner_by_now_is_not_taken() -> None:
    taker = Taker()

    async with taker.taking() as waiting:
        waiting.add_unassigned(RESOURCE_KEY, [X, Y])
        waiting.settle(RESOURCE_KEY, [X, ObjectRef("ns", "unknown")])
        await taker.clock.advance(1)

    assert taker.taken == [(UNASSIGNED_SECONDS, {Y: UNKNOWN})]


async def test_what_was_released_or_has_failed_is_taken_whatever_it_has_by_now() -> None:
    taker = Taker()

    async with taker.taking() as waiting:
        waiting.add_released(RESOURCE_KEY, {X: A})
        waiting.retry(ObjectKey(RESOURCE_KEY, Y), 2)
        waiting.settle(RESOURCE_KEY, [X, Y])
        await taker.clock.advance(5)

    assert taker.taken == [(ACKNOWLEDGED_SECONDS, {X: A}), (2.0, {Y: UNKNOWN})]


async def test_very_many_objects_are_taken_some_at_a_time_and_without_delay() -> None:
    taker = Taker()
    many = [ObjectRef("ns", f"x-{number}") for number in range(2 * AT_ONCE + 1)]

    async with taker.taking() as waiting:
        waiting.add_unassigned(RESOURCE_KEY, many)
        await taker.clock.advance(UNASSIGNED_SECONDS)

    assert [len(taken) for _, taken in taker.taken] == [AT_ONCE, AT_ONCE, 1]
    assert [ref for _, taken in taker.taken for ref in taken] == many

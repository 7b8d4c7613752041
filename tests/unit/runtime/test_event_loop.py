"""Facts about long loops in slices, and about the lag of the event loop."""

import asyncio

import pytest
from typing_extensions import override

from sharder.runtime.event_loop import SLICE_SECONDS, in_slices, probe
from sharder.sdk.testing.fake_clock import FakeClock


class SlowMachine(FakeClock):
    """More than half of a slice goes by from each look at the clock to the next."""

    @override
    def monotonic(self) -> float:
        self._elapsed += 0.6 * SLICE_SECONDS
        return self._elapsed


async def test_other_tasks_run_after_each_slice_and_not_within_one() -> None:
    done, seen = list[int](), set[int]()

    async def work() -> None:
        async for number in in_slices(range(6), SlowMachine()):
            done.append(number)

    task = asyncio.create_task(work())
    while not task.done():
        await asyncio.sleep(0)
        seen.add(len(done))

    assert done == list(range(6))
    assert seen == {2, 4, 6}


async def test_a_task_that_keeps_the_loop_busy_is_seen() -> None:
    clock, seen = FakeClock(), list[float]()

    async def hog() -> None:
        await clock.sleep(1.25)
        clock._elapsed += 0.9

    async with asyncio.TaskGroup() as group:
        task = group.create_task(probe(seen.append, clock))
        group.create_task(hog())
        await clock.advance(4)
        task.cancel()

    assert seen[:2] == pytest.approx([0, 0])
    assert max(seen) == pytest.approx(0.65)
    assert sum(lag > 0.001 for lag in seen) == 1

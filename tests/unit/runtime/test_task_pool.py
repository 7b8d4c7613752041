"""Facts about many writes side by side."""

import asyncio
import inspect

import pytest

from sharder.core.errors import Conflict
from sharder.runtime.task_pool import batch, race
from sharder.sdk.testing.fake_clock import settle


async def test_only_so_many_are_under_way_at_once() -> None:
    under_way, most = 0, 0

    async def work() -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1

    async with batch(3) as writes:
        for _ in range(10):
            await writes.add(work())

    assert (under_way, most) == (0, 3)


async def test_what_fails_first_cancels_the_rest_and_is_raised_as_it_is() -> None:
    done = list[str]()

    async def fail() -> None:
        raise Conflict("lost")

    async def work() -> None:
        await settle()
        done.append("late")

    async def both() -> None:
        async with batch(2) as writes:
            await writes.add(work())
            await writes.add(fail())
            await settle()

    with pytest.raises(Conflict, match="lost"):
        await both()

    assert done == []


async def test_the_failure_of_a_task_in_a_task_is_raised_as_it_is() -> None:
    async def fail() -> None:
        async with asyncio.TaskGroup() as inner:
            inner.create_task(lose())

    async def lose() -> None:
        raise Conflict("lost")

    with pytest.raises(Conflict, match="lost"):
        await race(fail(), asyncio.Event().wait())


async def test_work_that_never_found_room_is_not_left_behind() -> None:
    started = list[str]()

    async def fail() -> None:
        await asyncio.sleep(0)
        raise Conflict("lost")

    async def work() -> None:
        started.append("work")

    waiting = work()

    async def both() -> None:
        async with batch(1) as writes:
            await writes.add(fail())
            await writes.add(waiting)

    with pytest.raises(Conflict):
        await both()

    assert started == []
    assert inspect.getcoroutinestate(waiting) == inspect.CORO_CLOSED

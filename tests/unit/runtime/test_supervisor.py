"""Facts about `sharder.runtime.supervisor`."""

import asyncio
from itertools import pairwise

import pytest

from sharder.core.errors import ConfigError, LeaseLost, SharderError
from sharder.runtime.supervisor import supervise
from sharder.sdk.testing.fake_clock import FakeClock, FixedRng, settle


class Task:
    """Crashes after the given times, then runs for ever."""

    def __init__(self, clock: FakeClock, *crashes: float) -> None:
        self.clock = clock
        self.crashes = list(crashes)
        self.starts: list[float] = []
        self.running = False

    async def run(self) -> None:
        self.starts.append(self.clock.monotonic())
        self.running = True
        try:
            if self.crashes:
                await self.clock.sleep(self.crashes.pop(0))
                raise ValueError("a bug")
            await asyncio.Event().wait()
        finally:
            self.running = False


async def test_a_crashed_task_is_counted_and_restarted_later_each_time() -> None:
    clock, crashed = FakeClock(), list[str]()
    task = Task(clock, 0, 0, 0)
    async with asyncio.TaskGroup() as group:
        supervisor = group.create_task(
            supervise({"x": task.run}, clock=clock, rng=FixedRng(), on_crash=crashed.append)
        )
        await clock.advance(60)
        supervisor.cancel()

    assert crashed == ["x", "x", "x"]
    # Three quarters of 1, 2 and 4 s.
    assert [later - earlier for earlier, later in pairwise(task.starts)] == [0.75, 1.5, 3]


async def test_cancellation_stops_all() -> None:
    task = Task(FakeClock())
    async with asyncio.TaskGroup() as group:
        supervisor = group.create_task(
            supervise({"x": task.run}, clock=FakeClock(), rng=FixedRng(), on_crash=lambda _: None)
        )
        await settle()
        supervisor.cancel()

    assert task.starts
    assert not task.running


@pytest.mark.parametrize("error", [LeaseLost("lost"), ConfigError("wrong")])
async def test_a_lost_lease_or_a_wrong_setting_ends_all_tasks(error: SharderError) -> None:
    other = Task(FakeClock())

    async def lose() -> None:
        raise error

    with pytest.raises(ExceptionGroup) as caught:
        await supervise(
            {"x": other.run, "lease": lose},
            clock=FakeClock(),
            rng=FixedRng(),
            on_crash=lambda _: None,
        )

    assert caught.group_contains(type(error))
    assert not other.running


async def test_a_task_stops_even_if_its_cleanup_fails() -> None:
    clock, starts = FakeClock(), list[float]()

    async def run() -> None:
        starts.append(clock.monotonic())
        async with asyncio.TaskGroup() as group:
            group.create_task(_fail_when_cancelled())

    async with asyncio.TaskGroup() as group:
        supervisor = group.create_task(
            supervise({"x": run}, clock=clock, rng=FixedRng(), on_crash=lambda _: None)
        )
        await clock.advance(1)
        supervisor.cancel()
        await clock.advance(60)
        is_over = supervisor.done()
        supervisor.cancel()

    assert is_over
    assert starts == [0.0]


async def _fail_when_cancelled() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        raise ValueError("a bug in the cleanup")

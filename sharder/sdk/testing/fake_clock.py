"""A clock that only the test advances, and random numbers that are always the same."""

import asyncio
import heapq
import itertools
from asyncio import AbstractEventLoop
from collections.abc import Sized
from datetime import UTC, datetime, timedelta
from typing import Final
from weakref import WeakKeyDictionary

from sharder.runtime.task_pool import race

MAX_TURNS: Final = 10_000
"""How many turns of the event loop tasks can take; a short reconcile takes some three."""

_START: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)

_settling: Final = WeakKeyDictionary[AbstractEventLoop, list[object]]()
"""The calls of `settle` that have not ended, the latest last."""


class StillBusy(AssertionError):
    """Tasks never wait, so a test would never go on."""


async def settle() -> None:
    """Let all tasks run until they wait for the clock or for each other.

    Calls can overlap: a reconcile that writes to the cluster of its test calls `settle` too, while
    the test waits for that reconcile.  So an earlier call continues until all later calls have
    ended.

    Raises:
        StillBusy: tasks have not begun to wait within `MAX_TURNS` turns of the event loop.
    """
    loop = asyncio.get_running_loop()
    # asyncio has no public name for its queue of ready callbacks.
    ready: Sized = vars(loop)["_ready"]
    calls, mine = _settling.setdefault(loop, []), object()
    calls.append(mine)
    try:
        for _ in range(MAX_TURNS):
            await asyncio.sleep(0)
            # The earlier calls are always in this queue; nothing else is in it now.
            if calls[-1] is mine and len(ready) < len(calls):
                return
        raise StillBusy(
            f"tasks are still busy after {MAX_TURNS:,} turns of the event loop; does a reconcile "
            "write its object each time, or return a delay of 0?"
        )
    finally:
        calls.remove(mine)


class FakeClock:
    """Wall and monotonic time move together, by `advance` only; `sleep` waits for `advance`."""

    def __init__(self) -> None:
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._sequence = itertools.count()

    def now(self) -> datetime:
        """Return the wall time."""
        return _START + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Wait until the test has advanced the clock by `seconds`."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        awake = asyncio.get_running_loop().create_future()
        due = self._elapsed + seconds
        heapq.heappush(self._sleepers, (due, next(self._sequence), awake))
        await awake

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        """Wait until the event is set, or the test has advanced the clock by `seconds`."""
        await race(self.sleep(seconds), event.wait())

    async def advance(self, seconds: float) -> None:
        """Advance the clock by `seconds`; each sleeper wakes at its own time, in order."""
        end = self._elapsed + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, awake = heapq.heappop(self._sleepers)
            self._elapsed = max(self._elapsed, due)
            if not awake.done():
                awake.set_result(None)
                await settle()
        self._elapsed = end
        await settle()


class FixedRng:
    """Random numbers that are always the same, by default in the middle."""

    def __init__(self, value: float = 0.5) -> None:
        self._value = value

    def random(self) -> float:
        """Return the value."""
        return self._value

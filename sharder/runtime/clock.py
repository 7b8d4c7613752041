"""The only module that reads clocks; all other modules take a `Clock` or a time as an argument."""

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for values that other processes read, monotonic time for durations."""

    def now(self) -> datetime:
        """Return the wall clock as an aware UTC time."""
        ...

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back and counts through a suspend."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait at least `seconds`."""
        ...

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        """Wait until the event is set, for `seconds` at most."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        """Return the wall clock as an aware UTC time."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since boot, including suspend where the system supports it.

        CLOCK_MONOTONIC stops while a machine is suspended, but Leases still expire.
        """
        if hasattr(time, "CLOCK_BOOTTIME"):
            return time.clock_gettime(time.CLOCK_BOOTTIME)
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait at least `seconds`."""
        await asyncio.sleep(seconds)

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        """Wait until the event is set, for `seconds` at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()

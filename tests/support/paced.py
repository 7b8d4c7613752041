"""Calls at a steady rate, and what became of them."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from sharder.core.errors import SharderError

CALL_SECONDS = 5.0
"""After which a call has failed."""


@dataclass(slots=True)
class Calls:
    """Calls of one kind."""

    sent: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0
    slowest: float = 0.0
    """Seconds that the slowest call took."""

    @property
    def rate(self) -> float:
        """Per second, as many as the machine did."""
        return self.sent / self.seconds


async def paced(
    rate: float, calls: Calls, call: Callable[[], Awaitable[None]], stop: asyncio.Event
) -> None:
    """Call so many times per second, or as often as goes with 32 calls under way, until `stop`."""
    room, began = asyncio.Semaphore(32), time.monotonic()

    async def attempt() -> None:
        sent = time.monotonic()
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await call()
        except (OSError, SharderError, TimeoutError) as error:
            calls.failures.append(f"{time.monotonic() - began:.1f} s: {error!r}")
        finally:
            calls.slowest = max(calls.slowest, time.monotonic() - sent)
            room.release()

    async with asyncio.TaskGroup() as group:
        while not stop.is_set():
            await room.acquire()
            group.create_task(attempt())
            calls.sent += 1
            await asyncio.sleep(max(0.0, began + calls.sent / rate - time.monotonic()))
    calls.seconds += time.monotonic() - began

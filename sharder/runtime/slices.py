"""Long loops in slices, so that admission and other tasks run in between."""

from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

from sharder.runtime.clock import Clock

T = TypeVar("T")


async def in_slices(items: Iterable[T], *, seconds: float, clock: Clock) -> AsyncIterator[T]:
    """Yield the items, with a pause after each slice of work that took `seconds` or more."""
    began = clock.monotonic()
    for item in items:
        yield item
        if clock.monotonic() - began >= seconds:
            await clock.sleep(0)
            began = clock.monotonic()

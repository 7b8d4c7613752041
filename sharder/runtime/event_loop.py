"""Let other tasks run during long loops, and measure how late the event loop is."""

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final, NoReturn, TypeVar

from sharder.runtime.clock import Clock

T = TypeVar("T")

SLICE_SECONDS: Final = 0.003
"""The longest work without a pause.  Three slices can pass until a task runs that waits for a
time: the one that goes on, one until its timer is looked at, and one until the task's turn."""

PROBE_SECONDS: Final = 0.5
"""Seconds between two probes: ten a second were a sixth of an idle replica's CPU time."""


async def in_slices(items: Iterable[T], clock: Clock) -> AsyncIterator[T]:
    """Yield the items, with a pause after each slice of work."""
    began = clock.monotonic()
    for item in items:
        yield item
        if clock.monotonic() - began >= SLICE_SECONDS:
            await clock.sleep(0)
            began = clock.monotonic()


async def probe(observe: Callable[[float], None], clock: Clock) -> NoReturn:
    """Call `observe` twice a second with the seconds by which this task runs late.

    This is a sample: a block of the loop between two probes is missed, and only the part of a
    block after the due time of a probe is counted.  A block longer than `PROBE_SECONDS` is always
    seen.
    """
    while True:
        due = clock.monotonic() + PROBE_SECONDS
        await clock.sleep(PROBE_SECONDS)
        observe(max(0.0, clock.monotonic() - due))

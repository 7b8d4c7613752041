"""Keep the event loop free in long loops, and see how late it is."""

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final, NoReturn, TypeVar

from sharder.runtime.clock import Clock

T = TypeVar("T")

SLICE_SECONDS: Final = 0.003
"""The longest work without a pause.  Three slices can pass until a task runs that waits for a
time: the one that goes on, one until its timer is looked at, and one until the task's turn."""

PROBE_SECONDS: Final = 0.1
"""Between two probes: ten wake-ups a second have no measurable cost."""


async def in_slices(items: Iterable[T], clock: Clock) -> AsyncIterator[T]:
    """Yield the items, with a pause after each slice of work."""
    began = clock.monotonic()
    for item in items:
        yield item
        if clock.monotonic() - began >= SLICE_SECONDS:
            await clock.sleep(0)
            began = clock.monotonic()


async def probe(observe: Callable[[float], None], clock: Clock) -> NoReturn:
    """Observe by how many seconds this task runs late, ten times a second.

    This is a sample: a block between two probes is missed, and of others the part before the probe
    was due; long blocks are always found.
    """
    while True:
        due = clock.monotonic() + PROBE_SECONDS
        await clock.sleep(PROBE_SECONDS)
        observe(max(0.0, clock.monotonic() - due))

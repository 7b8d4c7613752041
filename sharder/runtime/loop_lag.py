"""How long the event loop keeps others waiting."""

from collections.abc import Callable
from typing import Final, NoReturn

from sharder.runtime.clock import Clock

PROBE_SECONDS: Final = 0.1
"""Between two probes: ten wake-ups a second cost nothing that could be measured."""


async def probe(observe: Callable[[float], None], clock: Clock) -> NoReturn:
    """Show how many seconds too late this task gets its turn, ten times a second.

    A block that ends between two probes is not seen, and of one that is seen what lies before the
    probe was due does not count: it is a sample, by which long blocks are found for sure.
    """
    while True:
        due = clock.monotonic() + PROBE_SECONDS
        await clock.sleep(PROBE_SECONDS)
        observe(max(0.0, clock.monotonic() - due))

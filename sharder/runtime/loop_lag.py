"""The delay of the event loop."""

from collections.abc import Callable
from typing import Final, NoReturn

from sharder.runtime.clock import Clock

PROBE_SECONDS: Final = 0.1
"""Between two probes: ten wake-ups a second have no measurable cost."""


async def probe(observe: Callable[[float], None], clock: Clock) -> NoReturn:
    """Observe by how many seconds this task runs late, ten times a second.

    This is a sample: a block between two probes is missed, and of others the part before the probe
    was due; long blocks are always found.
    """
    while True:
        due = clock.monotonic() + PROBE_SECONDS
        await clock.sleep(PROBE_SECONDS)
        observe(max(0.0, clock.monotonic() - due))

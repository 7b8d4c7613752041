"""The deliberate leave: before a shard stops it has its objects taken away, and works meanwhile.

So they move one by one, each let go by the one who worked on it, and none waits for an owner.
"""

import asyncio
import logging
from typing import Final

from sharder.clock import Clock
from sharder.runtime.holder import LeaseHolder
from sharder.sdk.work import Work

TELL_SECONDS: Final = 5.0
"""How often the log says how many objects are left."""

_log = logging.getLogger(__name__)


async def leave(holder: LeaseHolder, work: Work, *, within: float, clock: Clock) -> None:
    """Ask to be evacuated; return when no object is left or `within` seconds have passed.

    The Lease has to be kept and the objects to be worked on meanwhile: that nobody can take them,
    or that the API server is away, ends with the time.

    Raises:
        LeaseLost: another holder was seen.
    """
    async with asyncio.TaskGroup() as group:
        evacuation = group.create_task(_be_evacuated(holder, work), name="be evacuated")
        deadline = group.create_task(clock.sleep(within), name="stop waiting")
        telling = group.create_task(_tell(work, clock), name="tell what is left")
        await asyncio.wait({evacuation, deadline}, return_when=asyncio.FIRST_COMPLETED)
        for task in (evacuation, deadline, telling):
            task.cancel()
    if work.objects:
        _log.warning("stopping before evacuated: %d objects left", work.objects)
    else:
        _log.info("evacuated")


async def _be_evacuated(holder: LeaseHolder, work: Work) -> None:
    await holder.evacuate()
    await work.until_empty()


async def _tell(work: Work, clock: Clock) -> None:
    while True:
        # Not a constant message: an author's program may show no fields.
        _log.info("evacuating before stop: %d objects left", work.objects)
        await clock.sleep(TELL_SECONDS)

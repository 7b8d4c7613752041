"""One tenure of a shard: take the Lease, work, give it back when the work has ended.

The heartbeat encloses the work: while anything works it goes on, and when it ends in `LeaseLost`
all work is cancelled and waited for.  So the Lease is never given back under running work, and
no work outlives the Lease.

The deliberate leave: before a shard stops it has its objects taken away, and works meanwhile.

So they move one by one, each let go by the one who worked on it, and none waits for an owner.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from sharder.core.errors import LeaseLost
from sharder.runtime.clock import Clock
from sharder.runtime.lease_lock import LeaseHolder
from sharder.sdk.work import Work

_log = logging.getLogger(__name__)


async def serve_tenure(
    holder: LeaseHolder,
    work: Work,
    stop: asyncio.Event,
    *,
    drain_on_stop: float,
    stop_grace: timedelta,
    clock: Clock,
) -> None:
    """Wait for the Lease and work until `stop` is set; return when the Lease is given back.

    If `drain_on_stop` is not 0, the work goes on for up to so many seconds then, until the
    objects have been taken away.

    Cancelling this does the same at once: work is cancelled, and then the Lease given back.  A
    lost Lease is left as it is: it was lost because no request got through, and a release that
    gets through late would move all objects away from a shard that is about to come back.

    Raises:
        LeaseLost: it is or may be somebody else's; no work is running any more.
    """

    async def leaving() -> None:
        await stop.wait()
        if drain_on_stop:
            await leave(holder, work, within=drain_on_stop, clock=clock)

    is_lost = False
    try:
        if await _acquire(holder, stop):
            await _work(holder, work, leaving, stop_grace=stop_grace)
    except ExceptionGroup as group:
        lost, others = group.split(LeaseLost)
        if lost is None or others is not None:
            raise
        is_lost = True
        cause = f" ({work.blocked})" if work.blocked else ""
        raise LeaseLost(f"{_message(lost)}{cause}") from group
    finally:
        if not is_lost:
            await holder.release()


async def _acquire(holder: LeaseHolder, stop: asyncio.Event) -> bool:
    """Take the Lease; return False if `stop` was set before."""
    async with asyncio.TaskGroup() as group:
        taking = group.create_task(holder.acquire(), name="take lease")
        stopping = group.create_task(stop.wait(), name="wait for stop")
        await asyncio.wait({taking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        taking.cancel()
        stopping.cancel()
    return not taking.cancelled()


async def _work(
    holder: LeaseHolder,
    work: Work,
    leaving: Callable[[], Awaitable[None]],
    *,
    stop_grace: timedelta,
) -> None:
    """Work under the heartbeat until `leaving` has ended."""
    left = asyncio.Event()

    async def leave_off() -> None:
        await leaving()
        left.set()

    async with asyncio.TaskGroup() as group:
        heartbeat = group.create_task(holder.keep(), name="keep lease")
        group.create_task(leave_off(), name="leave")
        await work.run(left, stop_grace=stop_grace)
        heartbeat.cancel()


def _message(group: BaseExceptionGroup[BaseException]) -> str:
    """Return the text of the first error in the group."""
    first = group.exceptions[0]
    return _message(first) if isinstance(first, BaseExceptionGroup) else str(first)


TELL_SECONDS: Final = 5.0
"""How often the log says how many objects are left."""


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

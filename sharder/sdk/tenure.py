"""One tenure of a shard: take the Lease, work, give it back when the work has ended.

The heartbeat encloses the work: while anything works it goes on, and when it ends in `LeaseLost`
all work is cancelled and waited for.  So the Lease is never given back under running work, and
no work outlives the Lease.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

from sharder.clock import Clock
from sharder.errors import LeaseLost
from sharder.runtime.holder import LeaseHolder
from sharder.sdk.leave import leave
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

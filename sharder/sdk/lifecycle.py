"""One life of a shard: acquire the Lease, work, release it when all work has ended.

The heartbeat encloses the work: it continues while anything works, and when it ends in
`LeaseLost`, all work is cancelled and awaited.  So the Lease is never released under running work,
and no work outlives the Lease.

With `drain_on_stop` a shard that stops is evacuated first, and works meanwhile: its objects move
one by one, each acknowledged by the shard, and none is without an owner for long.
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


async def serve_until_stopped(
    holder: LeaseHolder,
    work: Work,
    stop: asyncio.Event,
    *,
    drain_on_stop: float,
    stop_grace: timedelta,
    clock: Clock,
) -> None:
    """Wait for the Lease and work until `stop` is set; return when the Lease is released.

    If `drain_on_stop` is not 0, the shard is evacuated first, for up to so many seconds.

    Cancelling this stops at once: work is cancelled, then the Lease is released.  A lost Lease is
    not released: it was lost because no request got through, and a late release would move all
    objects away from a shard that is about to return.

    Raises:
        LeaseLost: another holder has the Lease, or might have it; no work is running.
    """

    async def stopping() -> None:
        await stop.wait()
        if drain_on_stop:
            await drain(holder, work, within=drain_on_stop, clock=clock)

    is_lost = False
    try:
        if await _acquire(holder, stop):
            await _work(holder, work, stopping, stop_grace=stop_grace)
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
    stopping: Callable[[], Awaitable[None]],
    *,
    stop_grace: timedelta,
) -> None:
    """Work under the heartbeat until `stopping` returns."""
    stop = asyncio.Event()

    async def wait_to_stop() -> None:
        await stopping()
        stop.set()

    async with asyncio.TaskGroup() as group:
        heartbeat = group.create_task(holder.keep(), name="keep lease")
        group.create_task(wait_to_stop(), name="wait to stop")
        await work.run(stop, stop_grace=stop_grace)
        heartbeat.cancel()


def _message(group: BaseExceptionGroup[BaseException]) -> str:
    """Return the text of the first error in the group."""
    first = group.exceptions[0]
    return _message(first) if isinstance(first, BaseExceptionGroup) else str(first)


LOG_SECONDS: Final = 5.0
"""Between two log lines with the number of objects left."""


async def drain(holder: LeaseHolder, work: Work, *, within: float, clock: Clock) -> None:
    """Request the evacuation; return when no object is left or `within` seconds have passed.

    The caller keeps the Lease and the work running meanwhile.  Objects that no other shard can
    have, or an unavailable API server, delay the stop by `within` at most.

    Raises:
        LeaseLost: another holder was seen.
    """
    async with asyncio.TaskGroup() as group:
        evacuation = group.create_task(_evacuate(holder, work), name="evacuate")
        deadline = group.create_task(clock.sleep(within), name="deadline")
        progress = group.create_task(_log_progress(work, clock), name="log progress")
        await asyncio.wait({evacuation, deadline}, return_when=asyncio.FIRST_COMPLETED)
        for task in (evacuation, deadline, progress):
            task.cancel()
    if work.objects:
        _log.warning("drain_on_stop timed out with %d objects left", work.objects)
    else:
        _log.info("evacuated")


async def _evacuate(holder: LeaseHolder, work: Work) -> None:
    await holder.evacuate()
    await work.until_empty()


async def _log_progress(work: Work, clock: Clock) -> None:
    while True:
        # Not a constant message: an author's program may show no fields.
        _log.info("evacuating before stop: %d objects left", work.objects)
        await clock.sleep(LOG_SECONDS)

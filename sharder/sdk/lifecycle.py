"""One life of a shard: acquire the Lease, work, and release the Lease when all work has ended.

The Lease is renewed as long as any work runs.  If the renewal raises `LeaseLost`, all work is
cancelled and awaited.  So the Lease is never released while work runs, and no work outlives the
Lease.

With `drain_on_stop` a shard is evacuated before it stops, and keeps working meanwhile: the shard
acknowledges the drain of each object, and each object gets its next owner right after that.
"""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from itertools import count
from typing import Final, Protocol

from sharder.core.errors import LeaseLost
from sharder.core.names import REVISION_LABEL, ObjectRef, RingName
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.runtime.error_log import first_message
from sharder.runtime.lease_lock import LeaseHolder, OnAttempt
from sharder.runtime.lease_record import Leases
from sharder.sdk.startup.environment import Settings

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
"""The first signal stops a shard cleanly, the second one at once."""

_log = logging.getLogger(__name__)


class Workload(Protocol):
    """The work that a shard does while it holds its Lease."""

    @property
    def objects(self) -> int:
        """How many objects the shard has."""
        ...

    @property
    def blocked(self) -> str:
        """The step that has just blocked the event loop, empty if none did."""
        ...

    async def until_empty(self) -> None:
        """Return when the shard has no objects, or when no work runs that could release them."""
        ...

    async def run(self, stop: asyncio.Event, *, stop_grace: timedelta) -> None:
        """Work until `stop` is set or the call is cancelled; end when no work runs."""
        ...


def lease_holder(
    leases: Leases,
    ring: RingName,
    settings: Settings,
    *,
    clock: Clock,
    rng: Rng,
    on_attempt: OnAttempt = lambda _sent, _answered: None,
) -> LeaseHolder:
    """Return the holder of the shard's Lease, before it has acquired the Lease."""
    return LeaseHolder(
        leases,
        ObjectRef(settings.namespace, settings.name),
        settings.name,
        clock=clock,
        rng=rng,
        timing=settings.lease,
        # None removes the label that an earlier shard of the same name has left.
        labels={REVISION_LABEL: None, **settings.lease_labels(ring)},
        annotations=settings.lease_annotations(),
        pod_uid=settings.pod_uid,
        on_attempt=on_attempt,
    )


async def serve_until_stopped(
    holder: LeaseHolder,
    work: Workload,
    stop: asyncio.Event,
    *,
    drain_on_stop: Callable[[], float],
    stop_grace: timedelta,
    clock: Clock,
) -> None:
    """Acquire the Lease and work until `stop` is set; return when the Lease is released.

    After `stop`, `drain_on_stop` gives the seconds that an evacuation can take; 0 skips it.

    Cancellation stops at once: the work is cancelled, then the Lease is released.  A lost Lease is
    not released: it was lost because the API server did not answer, and a late release would move
    all objects away from a shard that is about to return.

    Raises:
        LeaseLost: another holder has the Lease, or might have it; no work runs any more.
    """

    async def stopping() -> None:
        await stop.wait()
        if seconds := drain_on_stop():
            await drain(holder, work, within=seconds, clock=clock)

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
        raise LeaseLost(f"{first_message(lost)}{cause}") from group
    finally:
        if not is_lost:
            await holder.release()


async def _acquire(holder: LeaseHolder, stop: asyncio.Event) -> bool:
    """Acquire the Lease; return False if `stop` is set first."""
    async with asyncio.TaskGroup() as group:
        taking = group.create_task(holder.acquire(), name="take lease")
        stopping = group.create_task(stop.wait(), name="wait for stop")
        await asyncio.wait({taking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        taking.cancel()
        stopping.cancel()
    return not taking.cancelled()


async def _work(
    holder: LeaseHolder,
    work: Workload,
    stopping: Callable[[], Awaitable[None]],
    *,
    stop_grace: timedelta,
) -> None:
    """Work until `stopping` returns, and renew the Lease meanwhile."""
    stop = asyncio.Event()

    async def wait_to_stop() -> None:
        await stopping()
        stop.set()

    async with asyncio.TaskGroup() as group:
        heartbeat = group.create_task(holder.keep(), name="keep lease")
        group.create_task(wait_to_stop(), name="wait to stop")
        await work.run(stop, stop_grace=stop_grace)
        heartbeat.cancel()


LOG_SECONDS: Final = 5.0
"""Seconds between two log lines about the objects that are left."""


async def drain(holder: LeaseHolder, work: Workload, *, within: float, clock: Clock) -> None:
    """Request the evacuation; return when it has ended or `within` seconds have passed.

    The caller must keep the Lease and the work running meanwhile.  Objects that no other shard can
    get, or an unavailable API server, delay the stop by at most `within` seconds.

    Raises:
        LeaseLost: another holder has the Lease.
    """
    async with asyncio.TaskGroup() as group:
        evacuation = group.create_task(_evacuate(holder, work), name="evacuate")
        deadline = group.create_task(clock.sleep(within), name="deadline")
        progress = group.create_task(_log_progress(work, clock), name="log progress")
        await asyncio.wait({evacuation, deadline}, return_when=asyncio.FIRST_COMPLETED)
        for task in (evacuation, deadline, progress):
            task.cancel()
    if not work.objects:
        _log.info("evacuated")
    elif deadline.cancelled():
        _log.warning("evacuation ended early: %d objects left", work.objects)
    else:
        _log.warning("drain_on_stop timed out with %d objects left", work.objects)


async def _evacuate(holder: LeaseHolder, work: Workload) -> None:
    await holder.evacuate()
    await work.until_empty()


async def _log_progress(work: Workload, clock: Clock) -> None:
    while True:
        # The count is in the message: an author's log format might show no fields.
        _log.info("evacuating before stop: %d objects left", work.objects)
        await clock.sleep(LOG_SECONDS)


async def until_signal(
    serve: Callable[[], Awaitable[None]],
    stop: Callable[[], None],
    fields: Callable[[], Mapping[str, str]],
) -> None:
    """Await `serve`; the first signal calls `stop`, the second one cancels `serve`.

    `fields` returns the fields of log records about the shard.
    """
    loop = asyncio.get_running_loop()
    scope = asyncio.timeout(None)
    signals = count(1)

    def on_signal() -> None:
        number = next(signals)
        if number == 1:
            stop()
        elif number == 2:
            _log.warning("stopping at once", extra=dict(fields()))
            scope.reschedule(loop.time())

    for each in _SIGNALS:
        loop.add_signal_handler(each, on_signal)
    try:
        async with scope:
            await serve()
    except TimeoutError:
        if not scope.expired():
            raise
    finally:
        for each in _SIGNALS:
            loop.remove_signal_handler(each)

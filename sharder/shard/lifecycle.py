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
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Final

from sharder.core.errors import LeaseLost
from sharder.core.names import REVISION_LABEL
from sharder.runtime.clock import Clock
from sharder.runtime.lease_holder import LeaseHolder
from sharder.runtime.lease_record import Candidate
from sharder.runtime.task_pool import race
from sharder.shard.context import ShardContext
from sharder.shard.fitness import Fitness
from sharder.shard.objects import OwnObject
from sharder.shard.watched import Watched

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
"""The first signal stops a shard cleanly, the second one at once."""
_POLL_SECONDS: Final = 0.2
"""Seconds between two checks whether the shard still has objects."""
LOG_SECONDS: Final = 5.0
"""Seconds between two log lines about the objects that are left."""

_log = logging.getLogger(__name__)


class Workload(ABC):
    """The work that a shard does while it holds its Lease."""

    @property
    @abstractmethod
    def watched(self) -> Iterable[Watched[OwnObject]]:
        """How well the watches of the work go."""

    @property
    @abstractmethod
    def objects(self) -> int:
        """How many objects the shard has."""

    @property
    def has_listed(self) -> bool:
        """Whether the shard knows all its objects."""
        return all(each.has_listed for each in self.watched)

    @property
    def is_empty(self) -> bool:
        """Whether the shard certainly has no objects, or no work runs that could release them."""
        return self.has_listed and not self.objects

    @property
    def has_ended(self) -> bool:
        """Whether no work runs after `run` has ended or failed, so that the Lease is free."""
        return True

    @abstractmethod
    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set or the call is cancelled; end when no work runs."""

    def problem(self, seconds: float) -> str:
        """Return why the work has been impossible for `seconds`, empty if it has not."""
        return next(filter(None, (each.problem(seconds) for each in self.watched)), "")

    def not_ready(self, seconds: float) -> str:
        """Return why the shard is not ready while it holds its Lease, empty if it is."""
        return self.problem(seconds) if self.has_listed else "the objects are not listed yet"


def lease_holder(of: ShardContext) -> LeaseHolder:
    """Return the holder of the shard's Lease, before it has acquired the Lease."""
    settings, ring = of.settings, of.identity.ring
    renewals = of.metrics.counts["controller_sharding_lease_renewals_total"]
    holder = LeaseHolder(
        of.leases,
        of.lease,
        Candidate(
            settings.name,
            # None removes the label that an earlier shard of the same name has left.
            labels={REVISION_LABEL: None, **settings.lease_labels(ring)},
            annotations=settings.lease_annotations(),
            pod_uid=settings.pod_uid,
        ),
        clock=of.clock,
        rng=of.rng,
        timing=settings.lease,
        on_attempt=lambda _, answered: renewals.add(ring, "success" if answered else "error"),
    )
    of.cluster.write_while(holder.left)
    return holder


@dataclass(slots=True)
class Life:
    """One life of a shard, until the `stop` of its context is set."""

    context: ShardContext
    holder: LeaseHolder
    work: Workload
    _why: str = ""

    async def live(self) -> None:
        """Acquire the Lease and work until `stop` is set; return when the Lease is released.

        Cancellation stops at once: the work is cancelled, then the Lease is released.  A lost
        Lease is not released: it was lost because the API server did not answer, and a late
        release would move all objects away from a shard that is about to return.

        Raises:
            LeaseLost: another holder has the Lease, or might have it; or the shard cannot work
                here and gave the Lease back.  No work runs any more.
        """
        context, holder, is_lost = self.context, self.holder, False
        fitness = Fitness(context=context, holder=holder, problem=self.work.problem)
        try:
            if await self._take(fitness):
                await self.holder.run_while_held(partial(self._work, fitness))
        except LeaseLost:
            is_lost = True
            raise
        finally:
            if not is_lost and self.work.has_ended and await self.holder.release():
                _log.info("stopped, Lease released", extra=self.context.identity.fields)
        if self._why:
            raise LeaseLost(self._why)

    async def _take(self, fitness: Fitness) -> bool:
        """Acquire the Lease when the shard can work; return False if `stop` is set first."""

        async def take() -> None:
            await fitness.until_fit()
            await self.holder.acquire()

        is_taken, _ = await race(take(), self.context.stop.wait())
        return is_taken

    async def _work(self, fitness: Fitness) -> None:
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._wait_to_stop(fitness, stopping), name="wait to stop")
            await self.work.run(stopping)

    async def _wait_to_stop(self, fitness: Fitness, stopping: asyncio.Event) -> None:
        async def note_unfit() -> None:
            self._why = await fitness.until_unfit()

        await race(self.context.stop.wait(), note_unfit())
        if self._why:
            _log.warning(
                "giving the Lease back: %s", self._why, extra=self.context.identity.fields
            )
        elif (seconds := self.context.settings.drain_on_stop_seconds) and not self.work.is_empty:
            await drain(self.holder, self.work, within=seconds, clock=self.context.clock)
        stopping.set()


async def drain(holder: LeaseHolder, work: Workload, *, within: float, clock: Clock) -> None:
    """Request the evacuation; return when it has ended or `within` seconds have passed.

    The caller must keep the Lease and the work running meanwhile.  Objects that no other shard can
    get, or an unavailable API server, delay the stop by at most `within` seconds.
    """
    deadline, told = clock.monotonic() + within, -inf
    holder.evacuate()
    while not work.is_empty and clock.monotonic() < deadline:
        if clock.monotonic() >= told + LOG_SECONDS:
            _log.info("evacuating before stop: %d objects left", work.objects)
            told = clock.monotonic()
        await clock.sleep(_POLL_SECONDS)
    if not work.objects:
        _log.info("evacuated")
    elif work.is_empty:
        _log.warning("evacuation ended early: %d objects left", work.objects)
    else:
        _log.warning("drain_on_stop timed out with %d objects left", work.objects)


async def until_signal(
    serve: Callable[[], Awaitable[None]], stop: Callable[[], bool | None]
) -> None:
    """Await `serve`; the first signal calls `stop`, the second one cancels `serve`.

    If `stop` returns False, because no clean stop is possible, the first signal cancels too.
    """
    loop = asyncio.get_running_loop()
    scope = asyncio.timeout(None)
    is_stopping = False

    def on_signal() -> None:
        nonlocal is_stopping
        if (is_stopping or stop() is False) and scope.when() is None:
            scope.reschedule(loop.time())
        is_stopping = True

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

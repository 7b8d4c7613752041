"""The thread that holds the Lease of a kopf process.

The thread has its own event loop, so the Lease is renewed even while a handler blocks kopf's loop.
If the Lease is lost, the thread ends the process at once: nothing else can stop a handler that
runs in another thread.
"""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from random import SystemRandom  # noqa: TID251 - the composition root of a kopf process
from typing import Self

from typing_extensions import override

from sharder.core.errors import LeaseLost
from sharder.core.names import GroupResource
from sharder.kopf.drains import Drains, Touch
from sharder.kopf.handler_gate import HandlerGate
from sharder.metrics.shard import process_metrics
from sharder.runtime.clock import SystemClock
from sharder.runtime.lease_holder import LeaseHolder
from sharder.shard.context import ShardContext
from sharder.shard.identity import Identity
from sharder.shard.lifecycle import Workload
from sharder.shard.objects import OwnObject
from sharder.shard.process import connected, serve
from sharder.shard.rights import needed_rights
from sharder.shard.settings import Settings
from sharder.shard.watched import Watched

_log = logging.getLogger(__name__)


class LeaseThread(Workload):
    """Holds the Lease from `acquire` to `release`, for kopf on the current event loop."""

    def __init__(
        self,
        identity: Identity,
        resources: Sequence[GroupResource],
        settings: Settings,
        gate: HandlerGate,
        *,
        touch: Touch,
    ) -> None:
        """Start nothing yet; see `acquire`."""
        self._identity = identity
        self._resources = resources
        self._settings = settings
        self._gate = gate
        self._touch = touch
        self._metrics = process_metrics()
        self._kopf_loop = asyncio.get_running_loop()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._ended = asyncio.Event()
        self._holder: LeaseHolder | None = None
        self._drains: list[Drains] = []
        """The objects of the shard, by resource.  kopf watches with the same rights, and in
        all versions, but does not show how that goes; it ends when its own watch fails."""
        self._acquired = Future[None]()
        self._thread = threading.Thread(target=self._run, name="sharder lease", daemon=True)

    def holds(self) -> bool:
        """Return whether this process certainly holds the Lease now; thread-safe."""
        return self._holder is not None and self._holder.valid()

    async def acquire(self) -> None:
        """Start the thread, and return when it holds the Lease; cancellation ends the thread.

        Raises:
            SharderError: the shard cannot work here; the message says why.
        """
        self._thread.start()
        try:
            await asyncio.shield(asyncio.wrap_future(self._acquired))
        except asyncio.CancelledError:
            await self.release()
            raise

    def evacuate(self) -> None:
        """Move the objects to other shards for up to `drain_on_stop`, and then end kopf."""
        self._set(self._stop)

    async def release(self) -> None:
        """Release the Lease; call it when kopf has ended and nothing runs any more."""
        self._set(self._ended, self._stop)
        await asyncio.to_thread(self._thread.join)

    def _set(self, *events: asyncio.Event) -> None:
        def set_all() -> None:
            for event in events:
                event.set()

        if self._loop is None:
            set_all()  # the thread has no event loop yet
            return
        with suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(set_all)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            if not self._acquired.done():
                self._acquired.set_exception(error)
            elif not isinstance(error, LeaseLost):
                raise
        else:
            self._acquired.cancel()  # no effect if it has a result

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            async with connected(self._settings, self._metrics) as cluster:
                context = ShardContext(
                    cluster=cluster,
                    identity=self._identity,
                    settings=self._settings,
                    handled=dict.fromkeys(self._resources, ()),
                    stop=self._stop,
                    metrics=self._metrics,
                    clock=SystemClock(),
                    rng=SystemRandom(),
                )
                rights = needed_rights(context.handled, context.lease)
                await serve(context, rights, partial(self._begin, context))
        except Exception as error:
            if not self._acquired.done() or self._ended.is_set():
                raise
            # Nothing renews the Lease any more, so there is no time to clean up.
            _log.error("ending the process: %s", error, exc_info=not isinstance(error, LeaseLost))
            os._exit(1)

    def _begin(self, context: ShardContext, holder: LeaseHolder) -> Self:
        self._holder = holder
        self._drains = [
            Drains(context, each, gate=self._gate, in_kopf=self._in_kopf, touch=self._touch)
            for each in self._resources
        ]
        return self

    def _in_kopf(self, function: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # kopf's loop has ended
            self._kopf_loop.call_soon_threadsafe(function)

    # `Life` uses the following while the Lease is held: this is its `Workload`.

    @property
    @override
    def objects(self) -> int:
        return sum(len(each.own) for each in self._drains)

    @property
    @override
    def is_empty(self) -> bool:
        return super().is_empty or self._ended.is_set()

    @property
    @override
    def has_ended(self) -> bool:
        return self._ended.is_set() or not self._acquired.done()

    @property
    @override
    def watched(self) -> Iterator[Watched[OwnObject]]:
        return (each.watched for each in self._drains)

    @override
    async def run(self, stop: asyncio.Event) -> None:
        """Let kopf work until `stop` is set, end kopf, and return when kopf has ended."""
        self._acquired.set_result(None)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each.run(), name="drains") for each in self._drains]
            await stop.wait()
            if not self._ended.is_set():
                signal.raise_signal(signal.SIGINT)  # which kopf handles
                await self._ended.wait()
            for task in tasks:
                task.cancel()

"""The work on one main resource while the shard holds its Lease: watch, reconcile, acknowledge.

There are two queues of objects, one for reconciles and one for drains, so that a drain never
waits for reconciles of other objects.  `_running` keeps the two apart: a drain is acknowledged
only when no reconcile of the object runs, and no reconcile starts after the drain label was seen.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from sharder.core.errors import Conflict, LeaseLost
from sharder.core.names import ObjectRef
from sharder.metrics.collectors import Labels, Reading
from sharder.ports import Changed, Listed, Removed
from sharder.runtime.backoff import Backoff
from sharder.runtime.workqueue import WorkQueue
from sharder.sdk.reads.collection import Collected
from sharder.sdk.resource_context import ResourceContext
from sharder.sdk.runner import Runner
from sharder.shard.context import DRAIN_BACKOFF
from sharder.shard.identity import Ownership

DRAINS_AT_ONCE: Final = 10
"""How many drains are acknowledged at a time."""
BACKOFF: Final = Backoff(base=0.1, cap=300.0)
"""Seconds; the sharder has the same cap for objects that fail."""

_CAUSES: Final = (
    "either the writer is not the shard (its pod needs the name of the shard, or its "
    "ServiceAccount the namespace of the shard's Lease), or another webhook changes labels in "
    "the same write"
)

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Running:
    """A running reconcile; it has a deadline (monotonic seconds) while its object drains."""

    scope: asyncio.Timeout
    deadline: float | None = None


class Controller:
    """The work on one main resource of a shard."""

    def __init__(self, context: ResourceContext) -> None:
        shard, name = context.shard, str(context.main.resource.id)
        self._context = context
        self.owned = context.owned
        """The objects of the shard."""
        self._runner = Runner(context)
        self._handoff = context.handoff
        self._clock = shard.clock
        self._running: dict[ObjectRef, _Running] = {}
        self._is_stopping = False
        self._ended = asyncio.Event()
        self._reconciles, self._drains = (
            WorkQueue[ObjectRef](
                clock=shard.clock,
                rng=shard.rng,
                backoff=backoff,
                name=queue,
                metrics=shard.metrics,
            )
            for queue, backoff in ((name, BACKOFF), (f"{name}-drains", DRAIN_BACKOFF))
        )
        self._reverted: set[ObjectRef] = set()
        """Objects whose acknowledgement a webhook has reverted.  Their events do not make them due
        at once: writes and changes would follow each other without a pause.
        """

    @property
    def collections(self) -> Sequence[Collected]:
        """The main objects and the children."""
        return (self._context.main, *self._context.children)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then start nothing new and return when all work has ended.

        Reconciles that still run after `stop_grace` are cancelled.  Cancellation of this method
        cancels all work at once.  In both cases no reconcile runs after this method has ended.
        """
        ring, resource = self._context.identity.ring, self._context.main.resource.id
        workers, name = self._context.shard.settings.workers, str(resource)
        gauges: dict[Labels, Reading] = {
            ("controller_sharding_owned_objects", ring, *resource): lambda: len(self.owned),
            ("controller_runtime_active_workers", name): lambda: len(self._running),
            ("controller_runtime_max_concurrent_reconciles", name): workers,
        }
        with self._context.shard.metrics.shown(gauges):
            await self._run(stop, workers=workers)

    async def _run(self, stop: asyncio.Event, *, workers: int) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._follow_objects(), name="follow objects"),
                *(
                    group.create_task(self._follow_children(each), name="follow children")
                    for each in self._context.children
                ),
                group.create_task(
                    self._reconciles.run(self._reconcile, concurrency=workers),
                    name="reconcile",
                ),
                group.create_task(
                    self._drains.run(self._acknowledge, concurrency=DRAINS_AT_ONCE),
                    name="acknowledge drains",
                ),
            ]
            await stop.wait()
            self._is_stopping = True
            await self._wait_for_reconciles()
            for task in tasks:
                task.cancel()

    async def _wait_for_reconciles(self) -> None:
        grace = self._context.shard.settings.stop_grace.total_seconds()
        try:
            async with asyncio.timeout(grace):
                while self._running:
                    self._ended.clear()
                    await self._ended.wait()
        except TimeoutError:
            _log.warning("stop_grace timed out, cancelling reconciles")

    async def _follow_objects(self) -> None:
        async with aclosing(self._context.main.follow("watch own objects")) as events:
            async for event in events:
                for ref in self.owned.apply(event):
                    self._enqueue(ref)

    async def _follow_children(self, children: Collected) -> None:
        async with aclosing(children.follow("watch children")) as events:
            async for event in events:
                match event:
                    case Listed():
                        # A list does not show which children were deleted meanwhile.
                        for ref in self.owned:
                            self._enqueue(ref)
                    case Changed(obj) | Removed(obj):
                        parent = self._context.parent_of(obj)
                        if parent and self.owned.ownership(parent) is Ownership.OURS:
                            self._reconciles.add(parent)

    def _enqueue(self, ref: ObjectRef) -> None:
        """Queue the work that the object's ownership requires."""
        running = self._running.get(ref)
        ownership = self.owned.ownership(ref)
        if ownership is not Ownership.DRAINING:
            self._reverted.discard(ref)
        match ownership:
            case Ownership.OURS:
                if running is not None:
                    running.deadline = None
                self._reconciles.add(ref)
            case Ownership.DRAINING:
                if ref not in self._reverted:
                    self._drains.add(ref)
            case Ownership.ELSEWHERE:
                # Deleted, or moved without a drain: another shard might already work on it.
                self._runner.forget(ref)
                self._reconciles.forget(ref)
                self._cancel(ref, "the object is gone")

    async def _reconcile(self, ref: ObjectRef) -> float | None:
        if self._is_stopping or self.owned.ownership(ref) is not Ownership.OURS:
            return None
        try:
            async with asyncio.timeout(None) as scope:
                self._running[ref] = _Running(scope)
                await self._handoff.settle(ref)
                await self._context.main.progress.until_written()
                if self.owned.ownership(ref) is not Ownership.OURS:
                    return None
                self._require_lease()  # nothing is awaited from here to the author's function
                return await self._runner.run(ref)
        except TimeoutError:
            return None
        finally:
            del self._running[ref]
            self._ended.set()
            if self.owned.ownership(ref) is Ownership.DRAINING:
                self._drains.add(ref)

    async def _acknowledge(self, ref: ObjectRef) -> float | None:
        """Acknowledge a drain if no reconcile runs; return the seconds until the next attempt.

        After a conflict or a lost answer the watch shows the current state, and the drain is
        evaluated again.

        Raises:
            ApiError: the queue is to back off.
        """
        meta = self.owned.get(ref)
        if meta is None or self.owned.ownership(ref) is not Ownership.DRAINING:
            return None
        running = self._running.get(ref)
        if running is not None:
            return self._limit(ref, running)
        self._require_lease()
        if await self._context.shard.acknowledge(self._context.main.resource, meta):
            # The write might cause no event, so keep the object.
            self._log_reverted(ref)
            raise Conflict("a webhook restored both labels")
        self._reverted.discard(ref)
        # The watch might be ahead of this answer, and show that the object has come back.
        self.owned.forget(ref, version=meta.resource_version)
        _log.info("drain acknowledged", extra=self._context.fields(ref))
        return None

    def _log_reverted(self, ref: ObjectRef) -> None:
        """Log that an acknowledgement was reverted, once for each drain."""
        if ref in self._reverted:
            return
        self._reverted.add(ref)
        text = "drain of %s not acknowledged: its labels were restored, will retry; %s"
        _log.warning(text, ref, _CAUSES, extra=self._context.fields(ref))

    def _limit(self, ref: ObjectRef, running: _Running) -> float | None:
        """Cancel a reconcile of a draining object after `drain_grace`; return the seconds left."""
        now = self._clock.monotonic()
        if running.deadline is None:
            running.deadline = now + self._context.shard.settings.drain_grace.total_seconds()
        if now < running.deadline:
            return running.deadline - now
        self._cancel(ref, "the object is draining")
        return None

    def _cancel(self, ref: ObjectRef, why: str) -> None:
        """Cancel a reconcile once; its clean-up runs to the end."""
        running = self._running.get(ref)
        if running is not None and running.scope.when() is None:
            running.scope.reschedule(asyncio.get_running_loop().time())
            _log.info("reconcile cancelled", extra=self._context.fields(ref, why=why))

    def _require_lease(self) -> None:
        if not self._context.holds_lease():
            raise LeaseLost("the lease was not renewed in time")

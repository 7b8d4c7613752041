"""The work of one shard while it holds its Lease: follow its objects, act on them, let them go.

Two queues see to each object: one reconciles, the other lets go, so that a drain never waits
behind other objects' reconciles.  What keeps them apart is `_running`: an object is let go only
when nothing works on it, and nothing begins to work on an object whose drain label was seen.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import LeaseLost
from sharder.core.movement.patches import acknowledge
from sharder.core.names import ObjectRef
from sharder.ports import Changed, Listed, Removed, Watchable
from sharder.runtime.backoff import Backoff, Rng
from sharder.runtime.clock import Clock
from sharder.runtime.reflector import follow
from sharder.runtime.workqueue import WorkQueue
from sharder.sdk.label_reverted import RevertedDrains
from sharder.sdk.owned import Ownership
from sharder.sdk.request import Workplace
from sharder.sdk.runner import Runner

DRAINS_AT_ONCE: Final = 10
"""How many objects are let go at a time."""
DRAIN_BACKOFF: Final = Backoff(base=0.2, cap=10.0)
"""Seconds; short, because another shard is waiting."""

_log = logging.getLogger(__name__)


class OwnObjects(Watchable[PartialObject], Protocol):
    """This shard's objects by metadata: followed, and let go."""

    async def patch(self, ref: ObjectRef, body: Json) -> PartialObject:
        """Merge `body` into the object, guarded by its `metadata.resourceVersion`."""
        ...


@dataclass(slots=True)
class _Running:
    """A reconcile in flight, and when (monotonic seconds) it has to end, None for never."""

    scope: asyncio.Timeout
    deadline: float | None = None
    is_cancelled: bool = False


class Work:
    """Runs once; begin anew with another one after the Lease was lost."""

    def __init__(
        self,
        workplace: Workplace,
        attempts: Runner,
        *,
        objects: OwnObjects,
        children: Sequence[Watchable[PartialObject]] = (),
        workers: int,
        drain_grace: timedelta,
        clock: Clock,
        rng: Rng,
    ) -> None:
        self._workplace = workplace
        self._holding = workplace.holding
        self._attempts = attempts
        self._objects = objects
        self._children = children
        self._workers = workers
        self._drain_grace = drain_grace.total_seconds()
        self._clock = clock
        self._rng = rng
        self._running: dict[ObjectRef, _Running] = {}
        self._is_stopping = False
        self._is_listed = False
        self._ended = asyncio.Event()
        self._noted = asyncio.Event()
        # Failures of reconciles are counted by `Runner`; this back-off is never used for them.
        self._reconciles = WorkQueue[ObjectRef](clock=clock, rng=rng, backoff=DRAIN_BACKOFF)
        self._drains = WorkQueue[ObjectRef](clock=clock, rng=rng, backoff=DRAIN_BACKOFF)
        self._reverted = RevertedDrains(clock=clock, rng=rng)

    @property
    def objects(self) -> int:
        """How many objects the shard has, as far as it has seen them."""
        return len(self._holding)

    @property
    def blocked(self) -> str:
        """What has kept the event loop from running until a moment ago, empty if nothing."""
        return self._attempts.blocked

    async def until_empty(self) -> None:
        """Return when the shard has no objects; before the first list that is not known."""
        while self._holding or not self._is_listed:
            self._noted.clear()
            await self._noted.wait()

    async def run(self, stop: asyncio.Event, *, stop_grace: timedelta) -> None:
        """Work until `stop` is set; then begin nothing new and return when all has ended.

        What has not ended `stop_grace` later is cancelled.  Cancelling this cancels all work
        at once; either way no reconcile runs when this is over.
        """
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._follow_objects(), name="follow objects"),
                *(
                    group.create_task(self._follow_children(source), name="follow children")
                    for source in self._children
                ),
                group.create_task(
                    self._reconciles.run(self._reconcile, concurrency=self._workers),
                    name="reconcile",
                ),
                group.create_task(
                    self._drains.run(self._let_go, concurrency=DRAINS_AT_ONCE), name="let go"
                ),
            ]
            await stop.wait()
            self._is_stopping = True
            await self._wait_for_the_end(stop_grace)
            for task in tasks:
                task.cancel()

    async def _wait_for_the_end(self, grace: timedelta) -> None:
        try:
            async with asyncio.timeout(grace.total_seconds()):
                while self._running:
                    self._ended.clear()
                    await self._ended.wait()
        except TimeoutError:
            _log.warning("reconciles cut short", extra={"why": "the shard stops"})

    async def _follow_objects(self) -> None:
        events = follow(
            self._objects, doing="follow own objects", clock=self._clock, rng=self._rng
        )
        async with aclosing(events):
            async for event in events:
                for ref in self._take_note(event):
                    self._look_at(ref)
                self._noted.set()

    def _take_note(
        self, event: Listed[PartialObject] | Changed[PartialObject] | Removed[PartialObject]
    ) -> frozenset[ObjectRef]:
        """Put what the watch shows into the holding; return the objects that it affects."""
        match event:
            case Listed(items):
                self._is_listed = True
                return self._holding.replace(items)
            case Changed(obj):
                self._holding.see(obj)
                return frozenset({obj.metadata.ref})
            case Removed(obj):
                self._holding.forget(obj.metadata.ref)
                return frozenset({obj.metadata.ref})

    async def _follow_children(self, source: Watchable[PartialObject]) -> None:
        events = follow(source, doing="follow children", clock=self._clock, rng=self._rng)
        async with aclosing(events):
            async for event in events:
                match event:
                    case Listed():
                        # Which children went away meanwhile is not known.
                        for ref in self._holding:
                            self._look_at(ref)
                    case Changed(obj) | Removed(obj):
                        self._look_at_parent(obj)

    def _look_at_parent(self, child: PartialObject) -> None:
        parent, main = child.metadata.controller, self._workplace.main.resource
        if parent is None or (parent.group, parent.kind) != (main.id.group, main.kind):
            return
        namespace = child.metadata.namespace if main.namespaced else ""
        ref = ObjectRef(namespace, parent.name)
        if self._holding.position(ref) is Ownership.OURS:
            self._reconciles.add(ref)

    def _look_at(self, ref: ObjectRef) -> None:
        """Start what the object's position asks for."""
        running = self._running.get(ref)
        position = self._holding.position(ref)
        if position is not Ownership.DRAINING:
            self._reverted.forget(ref)
        match position:
            case Ownership.OURS:
                if running is not None:
                    running.deadline = None
                self._reconciles.add(ref)
            case Ownership.DRAINING:
                self._drains.add(ref)
            case Ownership.ELSEWHERE:
                # Moved by force or deleted, which looks alike: somebody else may be at it.
                self._attempts.forget(ref)
                self._cancel(ref, "the object is gone")

    async def _reconcile(self, ref: ObjectRef) -> float | None:
        if self._is_stopping or self._holding.position(ref) is not Ownership.OURS:
            return None
        self._require_lease()
        try:
            async with asyncio.timeout(None) as scope:
                self._running[ref] = _Running(scope)
                return await self._attempts.run(ref)
        except TimeoutError:
            return None
        finally:
            del self._running[ref]
            self._ended.set()
            if self._holding.position(ref) is Ownership.DRAINING:
                self._drains.add(ref)

    async def _let_go(self, ref: ObjectRef) -> float | None:
        """Acknowledge a drain when nothing works on the object; return when to look again.

        After a conflict or a lost answer the watch shows what is so now, and that is judged anew.
        """
        meta = self._holding.get(ref)
        if meta is None or self._holding.position(ref) is not Ownership.DRAINING:
            return None
        running = self._running.get(ref)
        if running is not None:
            return self._hurry(ref, running)
        if wait := self._reverted.wait(ref):
            return wait
        identity = self._workplace.identity
        patch = acknowledge(
            meta, owner_label=identity.owner_label, drain_label=identity.drain_label
        )
        self._require_lease()
        written = await self._objects.patch(ref, patch)
        if identity.position_of(written.metadata) is Ownership.DRAINING:
            # A webhook put both labels back.  No event may tell, so the object is not forgotten.
            return self._reverted.add(ref, self._workplace.fields(ref))
        self._reverted.forget(ref)
        # If the watch was faster, and the object has come back, that counts.
        self._holding.forget(ref, version=meta.resource_version)
        self._noted.set()
        _log.info("drain acknowledged", extra=self._workplace.fields(ref))
        return None

    def _hurry(self, ref: ObjectRef, running: _Running) -> float | None:
        now = self._clock.monotonic()
        if running.deadline is None:
            running.deadline = now + self._drain_grace
        if now < running.deadline:
            return running.deadline - now
        self._cancel(ref, "the object is to be let go")
        return None

    def _cancel(self, ref: ObjectRef, why: str) -> None:
        """Cut a reconcile short, once: one that cleans up may go on until it has."""
        running = self._running.get(ref)
        if running is not None and not running.is_cancelled:
            running.is_cancelled = True
            running.scope.reschedule(asyncio.get_running_loop().time())
            _log.info("reconcile cancelled", extra=self._workplace.fields(ref, why=why))

    def _require_lease(self) -> None:
        if not self._workplace.holds_lease():
            raise LeaseLost("the lease was not renewed in time")

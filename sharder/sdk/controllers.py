"""The controllers of a shard, under one Lease."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from sharder.core.names import GroupResource
from sharder.sdk.controller import Controller
from sharder.sdk.reconciler import Reconciler
from sharder.sdk.resource_context import ResourceContext
from sharder.shard.context import ShardContext
from sharder.shard.fitness import in_served_versions


class Controllers:
    """Runs the controllers once; create a new one after the Lease was lost."""

    def __init__(
        self,
        shard: ShardContext,
        reconcilers: Sequence[Reconciler],
        *beside: Callable[[], Awaitable[None]],
        holds_lease: Callable[[], bool],
    ) -> None:
        """`beside` are loops that run as long as the work runs."""
        self._shard = shard
        self._reconcilers = reconcilers
        self._beside = beside
        self._holds_lease = holds_lease
        self._running = dict[GroupResource, Controller]()
        """By main resource; a new version of a resource leads to a new controller."""

    @property
    def objects(self) -> int:
        """How many main objects the shard has, as its watches last showed them."""
        return sum(each.objects for each in self._running.values())

    @property
    def is_empty(self) -> bool:
        """Whether all main resources have been listed and the shard has no objects."""
        return self._has_listed() and not self.objects

    def problem(self, seconds: float) -> str:
        """Return why a resource could not be watched for `seconds`, empty if all could be."""
        collections = (each for one in self._running.values() for each in one.collections)
        problems = (each.watched.problem(seconds) for each in collections)
        return next(filter(None, problems), "")

    def not_ready(self) -> str:
        """Return why the shard is not ready, empty if it is."""
        if not self._has_listed():
            return "the objects are not listed yet"
        return self.problem(self._shard.settings.lease.lease_duration)

    async def run(self, stop: asyncio.Event, *, stop_grace: timedelta) -> None:
        """Work until `stop` is set; then start nothing new and return when all work has ended.

        Reconciles that still run after `stop_grace` are cancelled.  Cancellation of this method
        cancels all work at once.  In both cases no reconcile runs after this method has ended.
        """
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(_awaited(each), name="beside") for each in self._beside]
            async with asyncio.TaskGroup() as working:
                for each in self._reconcilers:
                    working.create_task(self._control(each, stop, stop_grace), name="control")
            for task in beside:
                task.cancel()

    def _has_listed(self) -> bool:
        has_begun = len(self._running) == len(self._reconcilers)
        return has_begun and all(each.has_listed for each in self._running.values())

    async def _control(
        self, reconciler: Reconciler, stop: asyncio.Event, stop_grace: timedelta
    ) -> None:
        async def run() -> None:
            context = ResourceContext(self._shard, reconciler, holds_lease=self._holds_lease)
            self._running[reconciler.resource] = controller = Controller(context)
            await controller.run(stop, stop_grace=stop_grace)

        await in_served_versions(self._shard.found, run)


async def _awaited(loop: Callable[[], Awaitable[None]]) -> None:
    await loop()

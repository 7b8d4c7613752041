"""The controllers of a shard, under one Lease."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

from sharder.sdk.controller import Controller
from sharder.sdk.reconciler import Reconciler
from sharder.sdk.resource_context import ResourceContext
from sharder.shard.context import ShardContext


class Controllers:
    """One controller for each main resource."""

    def __init__(
        self,
        shard: ShardContext,
        reconcilers: Sequence[Reconciler],
        *,
        holds_lease: Callable[[], bool],
    ) -> None:
        """`holds_lease` returns whether this shard certainly holds its Lease now."""
        self._late_after = shard.settings.lease.lease_duration
        self._controllers = [
            Controller(ResourceContext(shard, each, holds_lease=holds_lease))
            for each in reconcilers
        ]

    @property
    def objects(self) -> int:
        """How many main objects the shard has, as its watches last showed them."""
        return sum(each.objects for each in self._controllers)

    @property
    def is_empty(self) -> bool:
        """Whether all main resources have been listed and the shard has no objects."""
        return self._has_listed() and not self.objects

    def problem(self, seconds: float) -> str:
        """Return why a resource could not be watched for `seconds`, empty if all could be."""
        collections = (each for one in self._controllers for each in one.collections)
        problems = (each.watched.problem(seconds) for each in collections)
        return next(filter(None, problems), "")

    def not_ready(self) -> str:
        """Return why the shard is not ready, empty if it is."""
        if not self._has_listed():
            return "the objects are not listed yet"
        return self.problem(self._late_after)

    async def run(self, stop: asyncio.Event, *, stop_grace: timedelta) -> None:
        """Run all controllers as `Controller.run` does."""
        async with asyncio.TaskGroup() as group:
            for each in self._controllers:
                group.create_task(each.run(stop, stop_grace=stop_grace), name="control")

    def _has_listed(self) -> bool:
        return all(each.has_listed for each in self._controllers)

"""The work of a shard on all its resources, under one Lease."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from sharder.sdk.leader import Campaign
from sharder.sdk.resource_work import Work
from sharder.sdk.startup.ring_check import RingCheck


class ShardWork:
    """One run of the shard's work; create a new one after the Lease was lost."""

    def __init__(
        self, works: Sequence[Work], check: RingCheck, campaign: Campaign | None = None
    ) -> None:
        self._works = works
        self._beside = (check, campaign) if campaign else (check,)
        """Loops that run as long as the work runs."""

    @property
    def objects(self) -> int:
        """How many main objects the shard has, as its watches last showed them."""
        return sum(work.objects for work in self._works)

    @property
    def blocked(self) -> str:
        """The step that has just blocked the event loop, empty if none did."""
        return next((work.blocked for work in self._works if work.blocked), "")

    def has_listed(self) -> bool:
        """Return whether the shard has listed its objects of all main resources."""
        return all(work.has_listed() for work in self._works)

    async def until_empty(self) -> None:
        """Return when all main resources have been listed and the shard has no objects."""
        while not all(work.is_empty for work in self._works):
            for work in self._works:
                await work.until_empty()

    async def run(self, stop: asyncio.Event, *, stop_grace: timedelta) -> None:
        """Work until `stop` is set; then start nothing new and return when all work has ended.

        Reconciles that still run after `stop_grace` are cancelled.  Cancellation of this method
        cancels all work at once.  In both cases no reconcile runs after this method has ended.
        """
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(each.run(), name="beside work") for each in self._beside]
            async with asyncio.TaskGroup() as working:
                for work in self._works:
                    working.create_task(work.run(stop, stop_grace=stop_grace), name="work")
            for task in beside:
                task.cancel()

"""Update the membership of all rings from the watch of Leases, and as time passes."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import TypeAlias

from sharder.controllers.cache_events import RebuildThrottle
from sharder.controllers.watch_health import LEASES, WatchHealth
from sharder.core.api.lease import Lease
from sharder.core.leases.register import Membership
from sharder.core.names import RingName
from sharder.ports import Changed, Listed, Removed
from sharder.runtime.clock import Clock

Event: TypeAlias = Listed[Lease] | Changed[Lease] | Removed[Lease]


class LeaseFeed:
    """Stores Leases as they arrive, and requests the rebuild of their rings."""

    def __init__(
        self,
        *,
        membership: Membership,
        health: WatchHealth,
        throttle: RebuildThrottle,
        known: Callable[[], Iterable[Lease]],
        prepare: Callable[[], Awaitable[None]],
        on_synced: Callable[[], None],
        clock: Clock,
    ) -> None:
        """Set up the feed.

        Args:
            membership: Stores the Leases.
            health: Records gaps of the watch.
            throttle: Rebuilds the rings.
            known: Returns the stored Leases of all rings.
            prepare: Called after each complete list, while no step is valid yet.
            on_synced: Called after each complete list.
            clock: For the times of observations.
        """
        self._membership = membership
        self._health = health
        self._throttle = throttle
        self._known = known
        self._prepare = prepare
        self._on_synced = on_synced
        self._clock = clock

    async def run(self, events: AsyncGenerator[Event, None]) -> None:
        """Store the events until cancelled."""
        async for event in events:
            now = self._clock.monotonic()
            self._health.saw_leases(now)
            if isinstance(event, Listed):
                self._health.lists_leases()
            await self._store(event, now)

    async def follow_time(self) -> None:
        """Rebuild rings whose standings change as time passes, until cancelled."""
        while True:
            self._health.runs()
            now = self._clock.monotonic()
            self._throttle.add_harmless(self._membership.due(now))
            # An earlier change can become known in the meantime.
            await self._clock.sleep(min(1.0, max(0.05, self._membership.next_change() - now)))

    async def _store(self, event: Event, now: float) -> None:
        """Store Leases; `Membership.is_back` reports a returned shard at once."""
        match event:
            case Listed(items):
                if not self._health.is_synced(LEASES):
                    # A shard that is unknown now might have worked until this moment.
                    self._membership.begin(now)
                before = list(self._known())
                changed = set[RingName]()
                for some in self._membership.replacing(items, now):
                    changed |= some
                    await asyncio.sleep(0)
                await self._prepare()
                self._health.listed_leases()
                kept = (item for item in items if self._membership.keeps(item.metadata.ref))
                self._throttle.add(changed, *before, *kept)
                self._on_synced()
            case Changed(lease):
                affected = self._membership.see(lease, now)
                if affected is not None:
                    self._throttle.add_paced(affected, lease)
            case Removed(lease):
                self._throttle.add_paced(self._membership.forget(lease, now), lease)

"""Store the rings as the watch shows them, and request the rebuild of changed rings."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeAlias

from sharder.controllers.cache_events import RebuildThrottle, Subscribers
from sharder.controllers.rest_mapper import RestMapper
from sharder.core.api.ring import ControllerRing, UnreadableRing
from sharder.core.leases.register import Membership
from sharder.core.names import RingName
from sharder.ports import Changed, Listed, Removed
from sharder.runtime.clock import Clock
from sharder.runtime.event_loop import in_slices

DISCOVERY_SECONDS = 30.0
"""Seconds between two discovery requests for resources that were not served."""

Event: TypeAlias = Listed[ControllerRing] | Changed[ControllerRing] | Removed[ControllerRing]


class RingFeed:
    """Stores rings as they arrive, and requests their rebuild."""

    def __init__(
        self,
        *,
        rest_mapper: RestMapper,
        membership: Membership,
        throttle: RebuildThrottle,
        subscribers: Subscribers,
        prepare: Callable[[ControllerRing], Awaitable[None]],
        on_synced: Callable[[], None],
        clock: Clock,
    ) -> None:
        """Set up the feed.

        Args:
            rest_mapper: Learns the resources of the rings.
            membership: Expects the shards of the rings.
            throttle: Rebuilds the rings.
            subscribers: Are notified of rings that cannot be decoded.
            prepare: Called with each ring before it is stored.
            on_synced: Called after each complete list.
            clock: For the time between two discovery requests.
        """
        self._rest_mapper = rest_mapper
        self._membership = membership
        self._throttle = throttle
        self._subscribers = subscribers
        self._prepare = prepare
        self._on_synced = on_synced
        self._clock = clock
        self.rings: dict[RingName, ControllerRing] = {}
        self.unreadable: dict[RingName, UnreadableRing] = {}
        """Rings that cannot be decoded; `rings` has their last readable states."""
        self.listed = asyncio.Event()
        """Set after all rings were listed."""

    def knows(self, ring: RingName) -> bool:
        """Return whether the ring exists, readable or not."""
        return ring in self.rings or ring in self.unreadable

    async def run(self, events: AsyncGenerator[Event, None]) -> None:
        """Store the events until cancelled."""
        async for event in events:
            match event:
                case Listed(items):
                    await self._rest_mapper.learn(items)
                    for ring in items:
                        await self._prepare(ring)
                    known = self.rings.keys() | self.unreadable.keys()
                    for name in known - {ring.name for ring in items}:
                        self._forget(name)
                    async for ring in in_slices(items, self._clock):
                        self._see(ring)
                    self.listed.set()
                    self._on_synced()
                case Changed(ring):
                    await self._rest_mapper.learn((ring,))
                    await self._prepare(ring)
                    self._see(ring)
                case Removed(ring):
                    self._forget(ring.name)

    async def learn_resources(self) -> None:
        """Retry discovery of resources that were not served or could not be read."""
        while True:
            await self._clock.sleep(DISCOVERY_SECONDS)
            if await self._rest_mapper.learn(self.rings.values()):
                self._throttle.add(self.rings)

    def _forget(self, name: RingName) -> None:
        self.rings.pop(name, None)
        self._throttle.add({name})
        if self.unreadable.pop(name, None) is not None:
            self._subscribers.notify_ring(name, steps=False)

    def _see(self, ring: ControllerRing) -> None:
        """Store a ring; a change of its status does not invalidate any step."""
        before = self.rings.get(ring.name)
        if isinstance(ring, UnreadableRing):
            # The last readable state stays in force, unless it belongs to another ring.
            if before is not None and before.metadata.uid != ring.metadata.uid:
                self._forget(ring.name)
            self.unreadable[ring.name] = ring
            self._subscribers.notify_ring(ring.name, steps=False)
            return
        if self.unreadable.pop(ring.name, None) is not None:
            self._subscribers.notify_ring(ring.name, steps=False)
        self.rings[ring.name] = ring
        self._membership.expect(ring.name, ring.spec.shard_namespaces)
        if before is None or _identity(before) != _identity(ring):
            self._throttle.add({ring.name})
        elif before != ring:
            self._throttle.add_harmless({ring.name})


def _identity(ring: ControllerRing) -> tuple[str, int]:
    """Return values that differ if two states of a ring can lead to different steps."""
    return ring.metadata.uid, ring.metadata.generation

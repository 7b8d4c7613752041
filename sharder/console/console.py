"""The loop behind the page: compare the rings, remember their changes, and send them to clients.

The loop polls the cache, so nothing waits for the loop.  Without a client it only compares the
snapshots that have changed.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final, NoReturn

from sharder.console.memory import Memory, Pair
from sharder.console.models import Beat, Replica, RingDetail, Rings
from sharder.console.rings import RingViews
from sharder.console.shards import counts_of
from sharder.console.stream import Client, Clients
from sharder.controllers.cache import ClusterCache
from sharder.core.names import RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.transitions import RingView, transitions, view_of
from sharder.runtime.clock import Clock
from sharder.runtime.event_loop import in_slices

TICK_SECONDS: Final = 0.5
"""Seconds between two polls of the rings."""

RINGS_SECONDS: Final = 2.0
"""Seconds between two lists of all rings."""


class Console:
    """Shows the rings to people; writes nothing."""

    def __init__(
        self,
        *,
        cache: ClusterCache,
        clock: Clock,
        version: str,
        namespace: str,
        not_ready: Callable[[], str | None],
    ) -> None:
        """Start nothing yet; see `run`.

        Args:
            cache: The source of the rings.
            clock: The clock for all times.
            version: The version of this program.
            namespace: The namespace of the sharder's own Lease.
            not_ready: Returns why this replica is not ready, None if it is.
        """
        self._cache = cache
        self._clock = clock
        self._version = version
        self._namespace = namespace
        self._not_ready = not_ready
        self.memory = Memory(clock)
        """The journal for the controllers."""
        self._views = RingViews(
            cache=cache, memory=self.memory, replica=self._replica, clock=clock
        )
        self._clients = Clients(clock)
        self._seen: dict[RingName, tuple[RingSnapshot, RingView]] = {}
        self._listing = asyncio.Lock()
        self._listed: tuple[float, Rings] | None = None

    async def run(self) -> NoReturn:
        """Poll the rings and send their changes until cancelled; then end all streams."""
        try:
            while True:
                await self._follow()
                await self._send(self.memory.tick())
                await self._clock.sleep(TICK_SECONDS)
        finally:
            self._clients.end()

    async def rings(self) -> Rings:
        """Return all rings, as they were at most `RINGS_SECONDS` ago."""
        async with self._listing:
            now = self._clock.monotonic()
            if self._listed is None or now - self._listed[0] >= RINGS_SECONDS:
                self._listed = now, await self._views.rings()
            return self._listed[1]

    def ring(self, name: RingName) -> RingDetail | None:
        """Return the current state of one ring, None if there is no ring of this name."""
        return self._views.ring(name)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another stream."""
        return self._clients.is_full

    def joined(
        self, ring: RingName | None, cut: Callable[[], None]
    ) -> AbstractContextManager[Client]:
        """Add a client while the body runs; see `Clients.joined`."""
        return self._clients.joined(ring, cut)

    def _replica(self) -> Replica:
        return Replica(
            version=self._version,
            namespace=self._namespace,
            leading=self.memory.counts is not None,
            not_ready=self._not_ready(),
        )

    async def _follow(self) -> None:
        """Compare each changed ring with its last state; other tasks run in between."""
        names = self._views.names()
        self.memory.keep(names)
        self._seen = {name: seen for name, seen in self._seen.items() if name in names}
        async for name in in_slices(names, self._clock):
            snapshot, seen = self._cache.snapshot(name), self._seen.get(name)
            if snapshot is None or (seen is not None and seen[0] is snapshot):
                continue
            view = view_of(snapshot, self.memory.present(name))
            if seen is not None:
                self._compare(*seen, view)
            self.memory.saw(name, view.shards)
            self._seen[name] = snapshot, view

    def _compare(self, last: RingSnapshot, before: RingView, after: RingView) -> None:
        name, memory = last.name, self.memory
        known = self._objects_at(last)
        if memory.counts is None:  # on the leader, the controllers report the transitions
            for transition in transitions(before, after, known):
                memory.happened(name, transition)
        for shard, phase in before.ended_in(after).items():
            memory.departed(
                name,
                shard,
                namespace=last.members.namespaces.get(shard, ""),
                phase=phase,
                objects=None if known is None else known.get(shard, 0),
            )
        for shard in after.shards:
            memory.returned(name, shard)

    def _objects_at(self, last: RingSnapshot) -> dict[ShardName, int] | None:
        """Return how many objects each shard had at the last poll, before the moves since then."""
        objects = counts_of(last, self.memory).by_shard
        if objects is None:
            return None
        left = self.memory.just_left(last.name)
        return {shard: objects.get(shard, 0) + left[shard] for shard in {*objects, *left}}

    async def _send(self, moves: Mapping[RingName, Mapping[Pair, int]]) -> None:
        if not len(self._clients):
            return
        rings = (await self.rings()).model_dump_json(by_alias=True)
        details = await self._details()
        beat = Beat(now=self._clock.now()).model_dump_json(by_alias=True)
        for client in self._clients:
            client.drop_if_slow()
            client.beat(beat)
            if client.ring is not None and client.ring in moves:
                client.add_moves(moves[client.ring])
            client.offer("rings", rings)
            if client.ring in details:
                client.offer("ring", details[client.ring])

    async def _details(self) -> dict[RingName | None, str]:
        """Return the JSON of each ring that a client watches; other tasks run in between."""
        details = dict[RingName | None, str]()
        for name in {client.ring for client in self._clients if client.ring is not None}:
            detail = self.ring(name)
            details[name] = "null" if detail is None else detail.model_dump_json(by_alias=True)
            await self._clock.sleep(0)
        return details

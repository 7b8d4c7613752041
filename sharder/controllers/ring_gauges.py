"""Show rings and shards as metrics: on every replica what it sees, and what the leader counts."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from sharder.controllers.cache import ClusterCache, Subscriber
from sharder.controllers.ring_status import shards_of
from sharder.core.leases.state import ShardState
from sharder.core.names import RingName
from sharder.core.placement.strategy import Strategy
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.conditions import StatsOf
from sharder.metrics.collectors import Labels, Metrics, Reading
from sharder.metrics.registry import RING_GAUGES, Series
from sharder.runtime.clock import Clock
from sharder.runtime.event_loop import in_slices

SHOW_SECONDS: Final = 5.0
"""Seconds between two updates; scrapes are seldom more frequent."""
_STATUSES: Final = ("True", "False", "Unknown")
_UNKNOWN: Final = "unknown"
"""A state of shards in the reference, which no shard has here."""


class Gauges:
    """Updates the metrics of rings and shards; invalid Leases are not shown."""

    def __init__(
        self,
        cache: ClusterCache,
        metrics: Metrics,
        clock: Clock,
        counts: Callable[[], StatsOf | None],
    ) -> None:
        """`counts` returns how objects are counted while this replica leads, else None."""
        self._cache = cache
        self._metrics = metrics
        self._clock = clock
        self._counts = counts
        self._strategies: dict[RingName, Strategy] = {}
        self._shown = set[RingName]()

    async def run(self) -> None:
        """Show the rings until cancelled."""
        with self._cache.subscribed(Subscriber(ring=self._note)):
            while True:
                rings = self._cache.ring_store.known()
                for ring in self._shown - rings:
                    self._metrics.forget(ring)
                self._shown = rings
                async for ring in in_slices(sorted(rings), self._clock):
                    self._show(ring)
                await self._clock.sleep(SHOW_SECONDS)

    def _note(self, ring: RingName) -> None:
        """Count a strategy that was built."""
        snapshot = self._cache.snapshot(ring)
        if snapshot is None:
            self._strategies.pop(ring, None)
        elif self._strategies.get(ring) is not snapshot.placer.strategy:
            self._strategies[ring] = snapshot.placer.strategy
            self._metrics.counts["ring_calculations_total"].add(ring)

    def _show(self, ring: RingName) -> None:
        if self._cache.snapshot(ring) is None:
            self._metrics.forget(ring)
        shown = defaultdict[str, dict[Labels, Reading]](dict)
        for name, labels, value in self._series(ring):
            shown[name][labels] = value
        for name in RING_GAUGES:
            self._metrics.gauges[name].replace(ring, shown[name])

    def _series(self, ring: RingName) -> Iterator[Series]:
        snapshot = self._cache.snapshot(ring)
        if ring in self._cache.ring_store.unreadable:
            yield "controllerring_unreadable", (ring,), 1
        if snapshot is not None:
            yield from _ring(snapshot)
            yield from self._shards(snapshot)
            yield from self._counted(snapshot)

    def _shards(self, snapshot: RingSnapshot) -> Iterator[Series]:
        now, monotonic = self._clock.now(), self._clock.monotonic()
        for lease in snapshot.members.validity.valid:
            meta, observed = lease.metadata, self._cache.membership.observed(lease.metadata.ref)
            if observed is not None:
                labels, present = (*meta.ref, snapshot.name), observed.state(now, monotonic)
                yield "shard_info", (*labels, meta.uid), 1
                for state in (*ShardState, _UNKNOWN):
                    yield "shard_state", (*labels, state), state == present

    def _counted(self, snapshot: RingSnapshot) -> Iterator[Series]:
        """Yield what only the leader knows."""
        counts, ring = self._counts(), snapshot.name
        if counts is None:
            return
        for condition in snapshot.ring.status.conditions:
            for status in _STATUSES:
                labels = ring, condition.type, status
                yield "controllerring_condition", labels, status == condition.status
        if (stats := counts(ring)) is None:
            return
        yield "controllerring_objects", (ring,), stats.objects
        for ref, shard in shards_of(snapshot):
            yield "shard_objects", (*ref, ring), stats.by_shard.get(shard.name, 0)
            # An automatic share of the objects is not a capacity.
            if (ceiling := snapshot.placer.layout.declared_by(shard)) is not None:
                yield "shard_capacity", (*ref, ring), ceiling


def _ring(snapshot: RingSnapshot) -> Iterator[Series]:
    members, labels = snapshot.members, (snapshot.name, snapshot.ring.metadata.uid)
    observed = snapshot.ring.status.observed_generation
    yield "controllerring_metadata_generation", labels, snapshot.ring.metadata.generation
    yield "controllerring_observed_generation", labels, observed
    yield "controllerring_status_shards", labels, len(members.validity.valid)
    yield "controllerring_status_available_shards", labels, len(members.available)
    yield "invalid_leases", (snapshot.name,), len(members.validity.problems)

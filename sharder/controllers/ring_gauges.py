"""Show rings and shards as metrics: on every replica what it sees, and what the leader counts."""

from collections.abc import Callable
from typing import Final

from sharder.controllers.cache import ClusterCache
from sharder.controllers.cache_events import Subscriber
from sharder.controllers.shard_loads import loads_of
from sharder.core.names import RingName
from sharder.core.placement.strategy import Strategy
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.stats import StatsOf
from sharder.metrics.registry import Metrics
from sharder.runtime.clock import Clock
from sharder.runtime.event_loop import in_slices

SHOW_SECONDS: Final = 5.0
"""Seconds between two updates; scrapes are seldom more frequent."""


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
                    self._metrics.rings.remove_ring(ring)
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
            self._metrics.rings.calculated(ring)

    def _show(self, ring: RingName) -> None:
        snapshot, gauges = self._cache.snapshot(ring), self._metrics.rings
        if snapshot is None:
            gauges.remove_ring(ring)
        gauges.set_unreadable(ring, unreadable=ring in self._cache.ring_store.unreadable)
        if snapshot is None:
            return
        meta, validity = snapshot.ring.metadata, snapshot.members.validity
        gauges.set_ring(
            ring,
            uid=meta.uid,
            generation=meta.generation,
            observed_generation=snapshot.ring.status.observed_generation,
            shards=len(validity.valid),
            available_shards=len(snapshot.members.available),
            invalid_leases=len(validity.problems),
        )
        now, monotonic = self._clock.now(), self._clock.monotonic()
        observed = (self._cache.membership.observed(x.metadata.ref) for x in validity.valid)
        gauges.set_shards(
            ring,
            {
                (*x.lease.metadata.ref, x.lease.metadata.uid): x.state(now, monotonic)
                for x in filter(None, observed)
            },
        )
        self._show_counts(snapshot)

    def _show_counts(self, snapshot: RingSnapshot) -> None:
        counts = self._counts()
        stats = None if counts is None else counts(snapshot.name)
        conditions = () if counts is None else snapshot.ring.status.conditions
        self._metrics.show_led(
            snapshot.name,
            conditions={each.type: each.status for each in conditions},
            objects=None if stats is None else stats.objects,
            shards=() if stats is None else loads_of(snapshot, stats),
        )

"""Show rings and shards as metrics, on every replica."""

from sharder.controllers.cache import ClusterCache
from sharder.controllers.cache_events import Subscriber
from sharder.core.api.lease import Lease
from sharder.core.leases.membership import ring_of
from sharder.core.names import ObjectRef, RingName, ShardName
from sharder.core.placement.strategy import Strategy
from sharder.metrics.registry import Metrics
from sharder.runtime.clock import Clock


class Gauges:
    """Updates the metrics of rings and shards; invalid Leases are not shown."""

    def __init__(self, cache: ClusterCache, metrics: Metrics, clock: Clock) -> None:
        self._cache = cache
        self._metrics = metrics.rings
        self._clock = clock
        self._strategies: dict[RingName, Strategy] = {}
        self._shown: dict[ObjectRef, RingName] = {}

    def subscriber(self) -> Subscriber:
        """Return the subscriber for the cluster cache."""
        return Subscriber(ring=self._show_ring, lease=self._show_shard)

    def _show_ring(self, name: RingName) -> None:
        self._show_snapshot(name)
        unreadable = name in self._cache.ring_store.unreadable
        self._metrics.set_unreadable(name, unreadable=unreadable)

    def _show_snapshot(self, name: RingName) -> None:
        snapshot = self._cache.snapshot(name)
        if snapshot is None:
            self._strategies.pop(name, None)
            self._shown = {ref: ring for ref, ring in self._shown.items() if ring != name}
            self._metrics.remove_ring(name)
            return
        if self._strategies.get(name) is not snapshot.placer.strategy:
            self._strategies[name] = snapshot.placer.strategy
            self._metrics.calculated(name)
        self._metrics.set_ring(
            name,
            uid=snapshot.ring.metadata.uid,
            generation=snapshot.ring.metadata.generation,
            observed_generation=snapshot.ring.status.observed_generation,
            shards=len(snapshot.members.validity.valid),
            available_shards=len(snapshot.members.available),
            invalid_leases=len(snapshot.members.validity.problems),
        )

    def _is_invalid(self, lease: Lease) -> bool:
        snapshot = self._cache.snapshot(ring_of(lease))
        return snapshot is None or lease.metadata.ref in snapshot.members.validity.problems

    def _show_shard(self, ref: ObjectRef) -> None:
        observed = self._cache.membership.observed(ref)
        if observed is not None and self._is_invalid(observed.lease):
            observed = None
        ring = ring_of(observed.lease) if observed is not None else None
        shown = self._shown.get(ref)
        if shown is not None and shown != ring:
            del self._shown[ref]
            self._metrics.remove_shard(shown, namespace=ref.namespace, shard=ShardName(ref.name))
        if observed is None or ring is None:
            return
        self._shown[ref] = ring
        self._metrics.set_shard(
            ring,
            namespace=ref.namespace,
            shard=ShardName(ref.name),
            uid=observed.lease.metadata.uid,
            state=observed.state(self._clock.now(), self._clock.monotonic()),
        )

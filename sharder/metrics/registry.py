"""The metrics of one process, with the names of the reference where it has them.

See docs/metrics.md.  Labels are rings, resources, shards and fixed words; never an
object's name.  Deleted rings and shards leave no series behind.
"""

from collections.abc import Sequence

from prometheus_client import (
    CollectorRegistry,
    Gauge,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from sharder.core.names import GroupResource, RingName
from sharder.core.status.stats import ShardLoad
from sharder.metrics.client_go import ClientGoMetrics
from sharder.metrics.collectors import Counts, Loads, Times
from sharder.metrics.replica import ReplicaMetrics
from sharder.metrics.ring_gauges import RingGauges
from sharder.metrics.transitions import Series, TransitionMetrics
from sharder.ports import Backlog

PREFIX = "controller_sharding_"

ANSWER_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
"""Seconds: from well below the usual answer to the API server's timeout."""

RESYNC_BUCKETS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
"""Seconds: up to the default period."""

_RING = "controllerring"


class Metrics:
    """The metrics of one process, on the caller's registry."""

    def __init__(
        self, registry: CollectorRegistry, *, version: str, shard_states: Sequence[str]
    ) -> None:
        """Register all metrics; `shard_states` are the possible states of a shard."""
        self._registry = registry
        self._gauges_by_ring: list[Gauge] = []
        self._series_by_ring: list[Series] = []
        resource = (_RING, "group", "resource")
        ring = (_RING,)

        def counts(name: str, about: str, labels: Sequence[str]) -> Counts:
            collector = Counts(PREFIX + name, about, labels)
            registry.register(collector)
            if _RING in labels:
                self._series_by_ring.append(collector)
            return collector

        def gauge(name: str, about: str, labels: Sequence[str]) -> Gauge:
            made = Gauge(PREFIX + name, about, labels, registry=registry)
            if _RING in labels:
                self._gauges_by_ring.append(made)
            return made

        self._assignments = counts(
            "assignments_total",
            "Objects that this replica's webhook assigned to a shard on admission",
            resource,
        )
        self._movements = counts(
            "movements_total",
            "Objects that the leader assigned: unassigned and drained objects, and objects of "
            "lost shards",
            resource,
        )
        self._drains = counts("drains_total", "Drains that the leader requested", resource)
        self._failures = counts(
            "object_failures_total",
            "Writes of objects that failed, or that another webhook reverted",
            resource,
        )
        self._withheld = counts(
            "drains_withheld_total",
            "Drains that were not requested because of a limit; each pass can count an object "
            "again",
            (*ring, "limit"),
        )
        self._rebalance_moves = counts(
            "rebalance_moves_total", "Drains that were requested to even out the load", ring
        )
        self._rebalance_planned = gauge(
            "rebalance_planned_moves",
            "Moves that the last rebalance found, carried out or not",
            ring,
        )
        self._overdue = gauge(
            "overdue_drains",
            "Drains open for longer than the ring's spec.movement.drainTimeout; shown by the "
            "leader",
            resource,
        )
        self._backlogs = [
            gauge(
                "unassigned_objects",
                "Objects without an owner label that wait for the leader; shown by the leader",
                resource,
            ),
            gauge(
                "unassigned_oldest_seconds",
                "Seconds since the present leader first saw the oldest unassigned object; 0 "
                "without any",
                resource,
            ),
            gauge(
                "draining_objects",
                "Draining objects, which their shard has not released yet; shown by the leader",
                resource,
            ),
            gauge(
                "draining_oldest_seconds",
                "Seconds since the present leader first saw the oldest open drain; 0 without any",
                resource,
            ),
        ]
        self._answers = counts(
            "admission_answers_total",
            "Admission requests that this replica received, by outcome; controllerring is empty "
            "if the ring is unknown",
            (*ring, "outcome"),
        )
        self._crashes = counts(
            "task_crashes_total",
            "Tasks of this replica that ended with an error and were restarted",
            ("task",),
        )
        self.rings = RingGauges(
            gauge,
            counts(
                "ring_calculations_total",
                "How often this replica built a ring's strategy, because its shards or its spec "
                "changed",
                ring,
            ),
            shard_states=shard_states,
            forget=self._forget_ring,
        )
        self._loads = Loads(PREFIX)
        registry.register(self._loads)

        def times(name: str, about: str, buckets: Sequence[float], labels: Sequence[str]) -> Times:
            collector = Times(PREFIX + name, about, buckets, labels)
            registry.register(collector)
            if _RING in labels:
                self._series_by_ring.append(collector)
            return collector

        self._answer_seconds = times(
            "admission_duration_seconds",
            "Seconds that this replica took to receive and answer an admission request; "
            "controllerring is empty if the ring is unknown",
            ANSWER_BUCKETS,
            (*ring, "outcome"),
        )
        self._resync_seconds = times(
            "resync_duration_seconds",
            "Seconds that the leader's complete passes over a ring's objects took",
            RESYNC_BUCKETS,
            ring,
        )
        self.replica = ReplicaMetrics(gauge, times, version=version)
        self.transitions = TransitionMetrics(registry, PREFIX)
        self._series_by_ring += [self._loads, *self.transitions.series]
        self.client_go = ClientGoMetrics(registry)
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)

    def answered(self, ring: RingName, outcome: str, seconds: float) -> None:
        """Count an admission answer; `ring` is empty for an unknown ring."""
        self._answers.add(ring, outcome)
        self._answer_seconds.observe(seconds, ring, outcome)

    def assigned(self, ring: RingName, resource: GroupResource) -> None:
        """Count an object that was assigned on admission."""
        self._assignments.add(ring, resource.group, resource.resource)

    def handed_over(self, ring: RingName) -> None:
        """Count an object that its acknowledgement gave to its new owner: it always had one."""
        self.transitions.handed_over(ring, "drained", 0.0)

    def moved(self, ring: RingName, resource: GroupResource) -> None:
        """Count an object that the leader assigned."""
        self._movements.add(ring, resource.group, resource.resource)

    def drained(self, ring: RingName, resource: GroupResource) -> None:
        """Count a drain that was requested."""
        self._drains.add(ring, resource.group, resource.resource)

    def withheld(self, ring: RingName, limit: str) -> None:
        """Count a drain that was deferred because of this field of `spec.movement`."""
        self._withheld.add(ring, limit)

    def rebalanced(self, ring: RingName) -> None:
        """Count a drain that was requested to balance the load."""
        self._rebalance_moves.add(ring)

    def show_planned_moves(self, ring: RingName, moves: int) -> None:
        """Show how many moves the last rebalance found, carried out or not."""
        self._rebalance_planned.labels(ring).set(moves)

    def hide_planned_moves(self, ring: RingName) -> None:
        """Hide the number of moves; no error if it is not shown."""
        self._rebalance_planned.remove(ring)

    def failed(self, ring: RingName, resource: GroupResource) -> None:
        """Count an object that could not be written, or whose label was removed again."""
        self._failures.add(ring, resource.group, resource.resource)

    def show_backlogs(
        self, ring: RingName, resource: GroupResource, *, unassigned: Backlog, draining: Backlog
    ) -> None:
        """Show the backlogs of a resource, as they are at each scrape."""
        shown = (unassigned.count, unassigned.age, draining.count, draining.age)
        for gauge, value in zip(self._backlogs, shown, strict=True):
            gauge.labels(ring, resource.group, resource.resource).set_function(value)

    def hide_backlogs(self, ring: RingName, resource: GroupResource) -> None:
        """Hide the backlogs and the overdue drains; no error if they are not shown."""
        for gauge in (*self._backlogs, self._overdue):
            gauge.remove(ring, resource.group, resource.resource)

    def show_overdue(self, ring: RingName, resource: GroupResource, *, drains: int) -> None:
        """Show the number of overdue drains, until `hide_backlogs`."""
        self._overdue.labels(ring, resource.group, resource.resource).set(drains)

    def show_load(self, ring: RingName, *, objects: int, shards: Sequence[ShardLoad]) -> None:
        """Show the objects of the ring and of these shards; hide its other shards."""
        self._loads.show(ring, objects, shards)

    def hide_load(self, ring: RingName) -> None:
        """Hide the loads of the ring; no error if they are not shown."""
        self._loads.remove(ring)

    def resynced(self, ring: RingName, seconds: float) -> None:
        """Record how long a complete resync took."""
        self._resync_seconds.observe(seconds, ring)

    def crashed(self, task: str) -> None:
        """Count a crash of a task; `task` is one of a few names."""
        self._crashes.add(task)

    def _forget_ring(self, ring: RingName) -> None:
        for gauge in self._gauges_by_ring:
            gauge.remove_by_labels({_RING: ring})
        for series in self._series_by_ring:
            series.remove(ring)

    def render(self) -> tuple[bytes, str]:
        """Return all metrics in Prometheus' text format, and its content type.

        Can be called from another thread.
        """
        return generate_latest(self._registry), CONTENT_TYPE_PLAIN_0_0_4

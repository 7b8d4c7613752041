"""The metrics of one process, by the reference's names where it has them.

See docs/protocol.md, "Metrics".  Labels are rings, resources, shards and fixed words; never an
object's name.  Deleted rings and shards leave no series behind.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from sharder.core.names import GroupResource, RingName
from sharder.core.status.stats import ShardLoad
from sharder.metrics.collectors import Counts, Loads, Times
from sharder.metrics.ring_gauges import RingGauges

PREFIX = "controller_sharding_"

ANSWER_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
"""Seconds: from well below the usual answer to the API server's timeout."""

RESYNC_BUCKETS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
"""Seconds: up to the default period."""

LAG_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
"""Seconds: from the target of an answer to the API server's timeout."""

_RING = "controllerring"


class Size(Protocol):
    """The number and the age of something; any thread may ask."""

    def count(self) -> float:
        """Return the number."""
        ...

    def age(self) -> float:
        """Return the age of the oldest in seconds, 0 if there are none."""
        ...


class Metrics:
    """The metrics of one process, on the caller's registry."""

    def __init__(
        self, registry: CollectorRegistry, *, version: str, shard_states: Sequence[str]
    ) -> None:
        """Register all metrics; `shard_states` are the possible states of a shard."""
        self._registry = registry
        self._gauges_by_ring: list[Gauge] = []
        self._series_by_ring: list[Counts | Loads | Times] = []
        resource = (_RING, "group", "resource")
        ring = (_RING,)

        def counts(name: str, about: str, labels: Sequence[str]) -> Counts:
            collector = Counts(PREFIX + name, about, labels)
            registry.register(collector)
            if _RING in labels:
                self._series_by_ring.append(collector)
            return collector

        def gauge(name: str, about: str, labels: Sequence[str] = ()) -> Gauge:
            made = Gauge(PREFIX + name, about, labels, registry=registry)
            if _RING in labels:
                self._gauges_by_ring.append(made)
            return made

        self._assignments = counts("assignments_total", "Objects assigned on admission", resource)
        self._movements = counts("movements_total", "Objects assigned by the leader", resource)
        self._drains = counts("drains_total", "Drains requested", resource)
        self._failures = counts("object_failures_total", "Failed writes to objects", resource)
        self._withheld = counts(
            "drains_withheld_total", "Drains deferred by a limit", (*ring, "limit")
        )
        self._rebalance_moves = counts(
            "rebalance_moves_total", "Drains requested to balance the load", ring
        )
        self._rebalance_planned = gauge(
            "rebalance_planned_moves", "Moves found by the last rebalance", ring
        )
        self._overdue = gauge(
            "overdue_drains", "Drains open for longer than the ring's drainTimeout", resource
        )
        self._backlogs = [
            gauge("unassigned_objects", "Objects without an owner label", resource),
            gauge(
                "unassigned_oldest_seconds",
                "Age of the oldest one, as seen by the leader",
                resource,
            ),
            gauge("draining_objects", "Open drains", resource),
            gauge(
                "draining_oldest_seconds", "Age of the oldest one, as seen by the leader", resource
            ),
        ]
        self._answers = counts("admission_answers_total", "Admission answers", (*ring, "outcome"))
        self._crashes = counts(
            "task_crashes_total", "Tasks that crashed and were restarted", ("task",)
        )
        self.rings = RingGauges(
            gauge,
            counts("ring_calculations_total", "Strategies built from a ring's shards", ring),
            shard_states=shard_states,
            forget=self._forget_ring,
        )
        self._loads = Loads(PREFIX)
        registry.register(self._loads)
        self._leading = gauge("leader", "1 while this process is the leader")
        self._certificate_expiry = gauge(
            "certificate_expiry_timestamp_seconds",
            "Expiry of the serving certificate and of its CA",
            ("certificate",),
        )
        self._connections = gauge(
            "connections", "Open connections per port, including handshakes", ("port",)
        )
        gauge("build_info", "Running version", ("version",)).labels(version).set(1)
        self._answer_seconds = Times(
            PREFIX + "admission_duration_seconds",
            "Time to receive and answer an admission request",
            ANSWER_BUCKETS,
        )
        self._resync_seconds = Times(
            PREFIX + "resync_duration_seconds",
            "Duration of complete resyncs",
            RESYNC_BUCKETS,
            ring,
        )
        self._lag_seconds = Times(
            PREFIX + "event_loop_lag_seconds",
            "Delay of the event loop, sampled ten times a second",
            LAG_BUCKETS,
        )
        registry.register(self._lag_seconds)
        registry.register(self._answer_seconds)
        registry.register(self._resync_seconds)
        self._series_by_ring += [self._loads, self._resync_seconds]

    def answered(self, ring: RingName, outcome: str, seconds: float) -> None:
        """Count an admission answer; `ring` is empty for an unknown ring."""
        self._answers.add(ring, outcome)
        self._answer_seconds.observe(seconds)

    def lagged(self, seconds: float) -> None:
        """Record a delay of the event loop."""
        self._lag_seconds.observe(seconds)

    def assigned(self, ring: RingName, resource: GroupResource) -> None:
        """Count an object that was assigned on admission."""
        self._assignments.add(ring, resource.group, resource.resource)

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
        """Show how many moves the last rebalance has found, carried out or not."""
        self._rebalance_planned.labels(ring).set(moves)

    def hide_planned_moves(self, ring: RingName) -> None:
        """Hide them; no error if they are not shown."""
        self._rebalance_planned.remove(ring)

    def failed(self, ring: RingName, resource: GroupResource) -> None:
        """Count an object that could not be written, or whose label was removed again."""
        self._failures.add(ring, resource.group, resource.resource)

    def show_backlogs(
        self, ring: RingName, resource: GroupResource, *, unassigned: Size, draining: Size
    ) -> None:
        """Show the backlogs of a resource, as they are at each scrape."""
        shown = (unassigned.count, unassigned.age, draining.count, draining.age)
        for gauge, value in zip(self._backlogs, shown, strict=True):
            gauge.labels(ring, resource.group, resource.resource).set_function(value)

    def hide_backlogs(self, ring: RingName, resource: GroupResource) -> None:
        """Hide them; no error if they are not shown."""
        for gauge in (*self._backlogs, self._overdue):
            gauge.remove(ring, resource.group, resource.resource)

    def show_overdue(self, ring: RingName, resource: GroupResource, *, drains: int) -> None:
        """Show the number of overdue drains, until `hide_backlogs`."""
        self._overdue.labels(ring, resource.group, resource.resource).set(drains)

    def show_load(self, ring: RingName, *, objects: int, shards: Sequence[ShardLoad]) -> None:
        """Show the objects of the ring and of these shards; hide its other shards."""
        self._loads.show(ring, objects, shards)

    def hide_load(self, ring: RingName) -> None:
        """Hide it; no error if it is not shown."""
        self._loads.remove(ring)

    def resynced(self, ring: RingName, seconds: float) -> None:
        """Record how long a complete resync took."""
        self._resync_seconds.observe(seconds, ring)

    def crashed(self, task: str) -> None:
        """Count a crash of a task; there are few names."""
        self._crashes.add(task)

    def set_leading(self, *, leading: bool) -> None:
        """Show whether this process leads."""
        self._leading.set(leading)

    def show_connections(self, port: str, count: Callable[[], float]) -> None:
        """Show the connections of a port, as they are at each scrape."""
        self._connections.labels(port).set_function(count)

    def set_certificate_expiry(
        self, *, serving: datetime | None, authority: datetime | None
    ) -> None:
        """Show the expiry of the serving certificate and its CA; None is not shown."""
        for name, end in (("serving", serving), ("authority", authority)):
            if end is not None:
                self._certificate_expiry.labels(name).set(end.timestamp())

    def _forget_ring(self, ring: RingName) -> None:
        for gauge in self._gauges_by_ring:
            gauge.remove_by_labels({_RING: ring})
        for series in self._series_by_ring:
            series.remove(ring)

    def render(self) -> tuple[bytes, str]:
        """Return all metrics in Prometheus' text format, and its content type.

        May be called from another thread.
        """
        return generate_latest(self._registry), CONTENT_TYPE_PLAIN_0_0_4

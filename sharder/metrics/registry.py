"""What is measured, in the reference's names where it has one (docs/protocol.md, "Metrics").

Labels are rings, resources, shards and fixed words; never an object's name.  What is removed
leaves no series behind.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from sharder.core.names import GroupResource, RingName, ShardName
from sharder.core.status.stats import ShardLoad
from sharder.metrics.collectors import Counts, Loads, Times

PREFIX = "controller_sharding_"

ANSWER_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
"""Seconds: from well below the usual answer to the API server's patience."""

RESYNC_BUCKETS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
"""Seconds: up to the default period."""

UNKNOWN_STATE = "unknown"
"""State of a shard whose Lease has none that is known, as in the reference."""

LAG_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
"""Seconds: from what an answer may take to what the API server waits for one."""

_RING = "controllerring"
_SHARD = ("namespace", "shard", _RING)

_RING_GAUGES = {
    "metadata_generation": "Generation of the ControllerRing",
    "observed_generation": "Generation that the status describes",
    "status_shards": "Shards in the status",
    "status_available_shards": "Available shards in the status",
}


class Size(Protocol):
    """How many there are of something, and how old the oldest is; asked by any thread."""

    def count(self) -> float:
        """Return how many there are."""
        ...

    def age(self) -> float:
        """Return the age of the oldest in seconds, 0 if there are none."""
        ...


class Metrics:
    """The series of one process, on a registry of the caller's."""

    def __init__(
        self, registry: CollectorRegistry, *, version: str, shard_states: Sequence[str]
    ) -> None:
        """Register all series; `shard_states` are the words that a shard's state may be."""
        self._registry = registry
        self._states = (*shard_states, UNKNOWN_STATE)
        self._uids: dict[tuple[str, ...], str] = {}
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
        self._calculations = counts(
            "ring_calculations_total", "Strategies built from a ring's shards", ring
        )
        self._answers = counts("admission_answers_total", "Admission answers", (*ring, "outcome"))
        self._crashes = counts(
            "task_crashes_total", "Tasks that crashed and were restarted", ("task",)
        )
        self._ring_gauges = [
            gauge(f"controllerring_{name}", about, (*ring, "uid"))
            for name, about in _RING_GAUGES.items()
        ]
        self._unreadable = gauge(
            "controllerring_unreadable", "1 for a ring that this version cannot decode", ring
        )
        self._invalid_leases = gauge("invalid_leases", "Leases ignored as shards", ring)
        self._shard_info = gauge("shard_info", "Lease of a shard", (*_SHARD, "uid"))
        self._shard_state = gauge(
            "shard_state", "1 for the state of the shard", (*_SHARD, "state")
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
        """Count an admission answer; `ring` is empty where there is no such ring."""
        self._answers.add(ring, outcome)
        self._answer_seconds.observe(seconds)

    def lagged(self, seconds: float) -> None:
        """Record how late the event loop was at a probe."""
        self._lag_seconds.observe(seconds)

    def assigned(self, ring: RingName, resource: GroupResource) -> None:
        """Count an object that got its owner by a request."""
        self._assignments.add(ring, resource.group, resource.resource)

    def moved(self, ring: RingName, resource: GroupResource) -> None:
        """Count an object that the controller gave an owner."""
        self._movements.add(ring, resource.group, resource.resource)

    def drained(self, ring: RingName, resource: GroupResource) -> None:
        """Count an object whose owner was asked to let go."""
        self._drains.add(ring, resource.group, resource.resource)

    def withheld(self, ring: RingName, limit: str) -> None:
        """Count a drain that was not begun, for this field of `spec.movement`."""
        self._withheld.add(ring, limit)

    def rebalanced(self, ring: RingName) -> None:
        """Count an object whose owner was asked to let go to balance the load."""
        self._rebalance_moves.add(ring)

    def show_planned_moves(self, ring: RingName, moves: int) -> None:
        """Show how many moves the last look at the balance has found, carried out or not."""
        self._rebalance_planned.labels(ring).set(moves)

    def hide_planned_moves(self, ring: RingName) -> None:
        """Show them no more; no error if they are not shown."""
        self._rebalance_planned.remove(ring)

    def failed(self, ring: RingName, resource: GroupResource) -> None:
        """Count an object that could not be written, or from which the label was taken off."""
        self._failures.add(ring, resource.group, resource.resource)

    def show_backlogs(
        self, ring: RingName, resource: GroupResource, *, unassigned: Size, draining: Size
    ) -> None:
        """Show how many exceptions a resource has and how old they are, as at each scrape."""
        shown = (unassigned.count, unassigned.age, draining.count, draining.age)
        for gauge, value in zip(self._backlogs, shown, strict=True):
            gauge.labels(ring, resource.group, resource.resource).set_function(value)

    def hide_backlogs(self, ring: RingName, resource: GroupResource) -> None:
        """Show them no more; no error if they are not shown."""
        for gauge in (*self._backlogs, self._overdue):
            gauge.remove(ring, resource.group, resource.resource)

    def show_overdue(self, ring: RingName, resource: GroupResource, *, drains: int) -> None:
        """Show how many drains are overdue, until `hide_backlogs`."""
        self._overdue.labels(ring, resource.group, resource.resource).set(drains)

    def show_load(self, ring: RingName, *, objects: int, shards: Sequence[ShardLoad]) -> None:
        """Show how many objects the ring and these shards have; other shards of it go."""
        self._loads.show(ring, objects, shards)

    def hide_load(self, ring: RingName) -> None:
        """Show it no more; no error if it is not shown."""
        self._loads.remove(ring)

    def calculated(self, ring: RingName) -> None:
        """Count a strategy that was built from a ring's shards."""
        self._calculations.add(ring)

    def resynced(self, ring: RingName, seconds: float) -> None:
        """Record how long a complete resync took."""
        self._resync_seconds.observe(seconds, ring)

    def crashed(self, task: str) -> None:
        """Count a task of the service that failed; its name is one of a few."""
        self._crashes.add(task)

    def set_ring(
        self,
        ring: RingName,
        *,
        uid: str,
        generation: int,
        observed_generation: int,
        shards: int,
        available_shards: int,
        invalid_leases: int,
    ) -> None:
        """Show a ring as its object and status are; the series of an object before it go."""
        known = self._uids.get((ring,))
        if known not in {None, uid}:
            for gauge in self._ring_gauges:
                gauge.remove(ring, known)
        self._uids[ring,] = uid
        values = (generation, observed_generation, shards, available_shards)
        for gauge, value in zip(self._ring_gauges, values, strict=True):
            gauge.labels(ring, uid).set(value)
        self._invalid_leases.labels(ring).set(invalid_leases)

    def set_unreadable(self, ring: RingName, *, unreadable: bool) -> None:
        """Show whether a ring cannot be decoded; one that can has no such series."""
        if unreadable:
            self._unreadable.labels(ring).set(1)
        else:
            self._unreadable.remove(ring)

    def set_shard(
        self, ring: RingName, *, namespace: str, shard: ShardName, uid: str, state: str
    ) -> None:
        """Show a shard's identity and state; call it for valid Leases only."""
        labels = (namespace, shard, ring)
        known = self._uids.get(labels)
        if known not in {None, uid}:
            self._shard_info.remove(*labels, known)
        self._uids[labels] = uid
        self._shard_info.labels(*labels, uid).set(1)
        present = state if state in self._states else UNKNOWN_STATE
        for word in self._states:
            self._shard_state.labels(*labels, word).set(word == present)

    def set_leading(self, *, leading: bool) -> None:
        """Show whether this process leads."""
        self._leading.set(leading)

    def show_connections(self, port: str, count: Callable[[], float]) -> None:
        """Show at each scrape how many connections a port has."""
        self._connections.labels(port).set_function(count)

    def set_certificate_expiry(
        self, *, serving: datetime | None, authority: datetime | None
    ) -> None:
        """Show when what the webhook serves, and what issued it, end; None is not shown."""
        for name, end in (("serving", serving), ("authority", authority)):
            if end is not None:
                self._certificate_expiry.labels(name).set(end.timestamp())

    def remove_shard(self, ring: RingName, *, namespace: str, shard: ShardName) -> None:
        """Forget a shard; no error if it is not known."""
        labels = (namespace, shard, ring)
        known = self._uids.pop(labels, None)
        # By all its labels: to look for a series by some of them is to go through all of them.
        if known is not None:
            self._shard_info.remove(*labels, known)
            for word in self._states:
                self._shard_state.remove(*labels, word)

    def remove_ring(self, ring: RingName) -> None:
        """Forget a ring with all its shards; no error if it is not known."""
        self._uids = {labels: uid for labels, uid in self._uids.items() if labels[-1] != ring}
        for gauge in self._gauges_by_ring:
            gauge.remove_by_labels({_RING: ring})
        for series in self._series_by_ring:
            series.remove(ring)

    def render(self) -> tuple[bytes, str]:
        """Return all series in Prometheus' text format, and its content type.

        May be called from another thread.
        """
        return generate_latest(self._registry), CONTENT_TYPE_PLAIN_0_0_4

"""The metrics of one process, with the names of the reference where it has them.

See docs/metrics.md.  Labels are rings, resources, shards and fixed words; never an
object's name.  Deleted rings and shards leave no series behind.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from sharder.core.names import GroupResource, RingName
from sharder.core.status.phases import Transition
from sharder.metrics import replica
from sharder.metrics.client_go import ClientGoMetrics
from sharder.metrics.collectors import RING, Families
from sharder.metrics.ring_gauges import RING_GAUGES, Series
from sharder.ports import Backlog

PREFIX = "controller_sharding_"

ANSWER_BUCKETS = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
)
"""Seconds: from well below the usual answer to the API server's timeout."""

RESYNC_BUCKETS: Final = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
"""Seconds: up to the default period."""

HANDOVER_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 45, 60, 120, 300)
"""Seconds: from one watch event to several Lease durations."""

_RESOURCE: Final = (RING, "group", "resource")

_COUNTS: Final = {
    "assignments_total": (
        "Objects that this replica's webhook assigned to a shard on admission",
        *_RESOURCE,
    ),
    "admission_answers_total": (
        "Admission requests that this replica received, by outcome; controllerring is empty "
        "if the ring is unknown",
        *(RING, "outcome"),
    ),
    "movements_total": (
        "Objects that the leader assigned: unassigned, drained, and of lost shards",
        *_RESOURCE,
    ),
    "drains_total": ("Drains that the leader requested", *_RESOURCE),
    "object_failures_total": (
        "Writes of objects that failed, or that another webhook reverted",
        *_RESOURCE,
    ),
    "drains_withheld_total": (
        "Drains that were not requested because of a limit; each pass can count an object again",
        *(RING, "limit"),
    ),
    "ring_calculations_total": (
        "How often this replica built a ring's strategy, because its shards or its spec changed",
        RING,
    ),
    "rebalance_moves_total": ("Drains that were requested to even out the load", RING),
    "transitions_total": (
        "Transitions of the ring that the leader reported, by the reason of their Events",
        *(RING, "reason"),
    ),
    "task_crashes_total": (
        "Tasks of this replica that ended with an error and were restarted",
        "task",
    ),
}
_TIMES: Final = {
    "admission_duration_seconds": (
        ANSWER_BUCKETS,
        (
            "Seconds that this replica took to receive and answer an admission request",
            *(RING, "outcome"),
        ),
    ),
    "resync_duration_seconds": (
        RESYNC_BUCKETS,
        ("Seconds that the leader's complete passes over a ring's objects took", RING),
    ),
    "handover_seconds": (
        HANDOVER_BUCKETS,
        (
            "Time without a live owner: for drained since the acknowledgement, for lost since "
            "the last renewal or the release of the shard's Lease",
            *(RING, "reason"),
        ),
    ),
}
_BACKLOGS: Final = {
    "unassigned_objects": (
        "Objects without an owner label that wait for the leader",
        *_RESOURCE,
    ),
    "unassigned_oldest_seconds": (
        "Seconds since the present leader first saw the oldest unassigned object; 0 without any",
        *_RESOURCE,
    ),
    "draining_objects": (
        "Draining objects, which their shard has not released yet",
        *_RESOURCE,
    ),
    "draining_oldest_seconds": (
        "Seconds since the present leader first saw the oldest open drain; 0 without any",
        *_RESOURCE,
    ),
}
_GAUGES: Final = {
    "rebalance_planned_moves": (
        "Moves that the last rebalance found, carried out or not",
        RING,
    ),
    "overdue_drains": (
        "Drains open for longer than the ring's spec.movement.drainTimeout",
        *_RESOURCE,
    ),
}


class Metrics:
    """The metrics of one process, on the caller's registry."""

    def __init__(self, registry: CollectorRegistry, *, version: str) -> None:
        """Register all metrics."""
        self._registry = registry
        self._families = families = Families(registry, PREFIX)
        self._counts, self._times = families.counts(_COUNTS), families.times(_TIMES)
        self._backlogs, self._gauges = families.gauges(_BACKLOGS), families.gauges(_GAUGES)
        self._rings = families.gauges(RING_GAUGES)
        self.replica = families.gauges(replica.GAUGES)
        """The gauges of the process that concern no ring, by name."""
        self.replica["leader"].show(0)
        self.replica["build_info"].show(1, version)
        self._times |= families.times(replica.TIMES)
        self.client_go = ClientGoMetrics(registry)
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)

    def lagged(self, seconds: float) -> None:
        """Record a delay of the event loop."""
        self._times["event_loop_lag_seconds"].observe(seconds)

    def answered(self, ring: RingName, outcome: str, seconds: float) -> None:
        """Count an admission answer; `ring` is empty for an unknown ring."""
        self._counts["admission_answers_total"].add(ring, outcome)
        self._times["admission_duration_seconds"].observe(seconds, ring, outcome)

    def assigned(self, ring: RingName, resource: GroupResource) -> None:
        """Count an object that was assigned on admission."""
        self._counts["assignments_total"].add(ring, resource.group, resource.resource)

    def handed_over(self, ring: RingName, reason: str = "drained", seconds: float = 0.0) -> None:
        """Record how long an object had no live owner; the reason is a fixed word.

        An object that its acknowledgement gave to its new owner always had one.
        """
        self._times["handover_seconds"].observe(seconds, ring, reason)

    def happened(self, ring: RingName, transition: Transition) -> None:
        """Count a transition."""
        self._counts["transitions_total"].add(ring, transition.kind)

    def moved(self, ring: RingName, resource: GroupResource) -> None:
        """Count an object that the leader assigned."""
        self._counts["movements_total"].add(ring, resource.group, resource.resource)

    def drained(self, ring: RingName, resource: GroupResource) -> None:
        """Count a drain that was requested."""
        self._counts["drains_total"].add(ring, resource.group, resource.resource)

    def withheld(self, ring: RingName, limit: str) -> None:
        """Count a drain that was deferred because of this field of `spec.movement`."""
        self._counts["drains_withheld_total"].add(ring, limit)

    def rebalanced(self, ring: RingName) -> None:
        """Count a drain that was requested to balance the load."""
        self._counts["rebalance_moves_total"].add(ring)

    def show_planned_moves(self, ring: RingName, moves: int) -> None:
        """Show how many moves the last rebalance found, carried out or not."""
        self._gauges["rebalance_planned_moves"].show(moves, ring)

    def hide_planned_moves(self, ring: RingName) -> None:
        """Hide the number of moves; no error if it is not shown."""
        self._gauges["rebalance_planned_moves"].remove(ring)

    def failed(self, ring: RingName, resource: GroupResource) -> None:
        """Count an object that could not be written, or whose label was removed again."""
        self._counts["object_failures_total"].add(ring, resource.group, resource.resource)

    def show_backlogs(
        self, ring: RingName, resource: GroupResource, *, unassigned: Backlog, draining: Backlog
    ) -> None:
        """Show the backlogs of a resource, as they are at each scrape."""
        shown = (unassigned.count, unassigned.age, draining.count, draining.age)
        for gauge, value in zip(self._backlogs.values(), shown, strict=True):
            gauge.show(value, ring, resource.group, resource.resource)

    def hide_backlogs(self, ring: RingName, resource: GroupResource) -> None:
        """Hide the backlogs and the overdue drains; no error if they are not shown."""
        for gauge in (*self._backlogs.values(), self._gauges["overdue_drains"]):
            gauge.hide(ring, resource.group, resource.resource)

    def show_overdue(self, ring: RingName, resource: GroupResource, *, drains: int) -> None:
        """Show the number of overdue drains, until `hide_backlogs`."""
        self._gauges["overdue_drains"].show(drains, ring, resource.group, resource.resource)

    def show_ring(self, ring: RingName, series: Iterable[Series]) -> None:
        """Show exactly these series of the ring in the gauges of `RING_GAUGES`."""
        shown = defaultdict[str, dict[tuple[str, ...], float]](dict)
        for name, labels, value in series:
            shown[name][labels] = value
        for name, gauge in self._rings.items():
            gauge.replace(ring, shown[name])

    def forget(self, ring: RingName) -> None:
        """Remove all series of a ring and its shards; no error if it is not known."""
        self._families.forget(ring)

    def calculated(self, ring: RingName) -> None:
        """Count a strategy that was built from a ring's shards."""
        self._counts["ring_calculations_total"].add(ring)

    def resynced(self, ring: RingName, seconds: float) -> None:
        """Record how long a complete resync took."""
        self._times["resync_duration_seconds"].observe(seconds, ring)

    def crashed(self, task: str) -> None:
        """Count a crash of a task; `task` is one of a few names."""
        self._counts["task_crashes_total"].add(task)

    def render(self) -> tuple[bytes, str]:
        """Return all metrics in Prometheus' text format, and its content type.

        Can be called from another thread.
        """
        return generate_latest(self._registry), CONTENT_TYPE_PLAIN_0_0_4

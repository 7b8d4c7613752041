"""The metrics of the service, with the names of the reference where it has them.

See docs/metrics.md.  Deleted rings and shards leave no series behind.
"""

from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from sharder.metrics.client_go import CLIENT_GO
from sharder.metrics.collectors import RING, Metrics, Table

PREFIX = "controller_sharding_"

Series: TypeAlias = tuple[str, tuple[str, ...], float]
"""The name of a gauge, the values of its labels, and its value."""

ANSWER_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
"""Seconds: from well below the usual answer to the API server's timeout."""

LAG_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
"""Seconds: from the target of an answer to the API server's timeout."""

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
    "event_loop_lag_seconds": (
        LAG_BUCKETS,
        (
            "Seconds by which the event loop is late, sampled twice a second; admission waits as "
            "long",
        ),
    ),
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
BACKLOGS: Final = {
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
"""The gauges of the backlogs of a resource: of each, the number of objects and the oldest age."""
_GAUGES: Final = {
    "rebalance_planned_moves": (
        "Moves that the last rebalance found, carried out or not",
        RING,
    ),
    "overdue_drains": (
        "Drains open for longer than the ring's spec.movement.drainTimeout",
        *_RESOURCE,
    ),
    "watch_healthy": (
        "1 while this replica's watch of rings, Leases or namespaces works, else 0",
        "watch",
    ),
    "leader": ("1 while this replica leads, else 0",),
    "certificate_expiry_timestamp_seconds": (
        "Unix time at which the serving certificate, or the CA that signed it, expires",
        "certificate",
    ),
    "connections": (
        "Open connections of a port of this replica, TLS handshakes included",
        "port",
    ),
    "build_info": ("1, with the running version", "version"),
}


_SHARD: Final = ("namespace", "shard", RING)

RING_GAUGES: Final = {
    "controllerring_metadata_generation": (
        "Generation of the ControllerRing's spec that this replica has seen",
        *(RING, "uid"),
    ),
    "controllerring_observed_generation": (
        "Generation that the ControllerRing's status describes",
        *(RING, "uid"),
    ),
    "controllerring_status_shards": (
        "Valid Leases of shards, including those of shards that are gone",
        *(RING, "uid"),
    ),
    "controllerring_status_available_shards": ("Shards that can own objects", RING, "uid"),
    "controllerring_unreadable": (
        "1 for a ring that this version cannot decode; others have no such series",
        RING,
    ),
    "invalid_leases": (
        "Invalid Leases of the ring, which are ignored; an Event on each says why",
        RING,
    ),
    "shard_info": ("1, with the uid of the shard's Lease", *_SHARD, "uid"),
    "shard_state": ("1 for the present state of the shard, else 0", *_SHARD, "state"),
    "controllerring_condition": (
        "1 for the present status of the ring's condition, else 0",
        *(RING, "condition", "status"),
    ),
    "controllerring_objects": (
        "Main objects in the ring's scope, assigned or not",
        RING,
    ),
    "shard_objects": (
        "Main objects that a shard owns, draining ones included",
        *_SHARD,
    ),
    "shard_capacity": (
        "Main objects that a shard can own; absent without a limit",
        *_SHARD,
    ),
}
"""The gauges of rings and their shards, which are all shown anew every few seconds."""

_SERVICE: Final = Table(_COUNTS, _TIMES, BACKLOGS | _GAUGES | RING_GAUGES, prefix=PREFIX)


def service_metrics(registry: CollectorRegistry, *, version: str) -> Metrics:
    """Register all metrics of a process of the service, and return them."""
    metrics = Metrics(registry, _SERVICE, CLIENT_GO)
    metrics.gauges["leader"].show(0)
    metrics.gauges["build_info"].show(1, version)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return metrics

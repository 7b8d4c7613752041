"""The metrics of a shard, with the names of controller-runtime and client-go where they have them.

They are on the default registry of the process, beside the author's own metrics.
"""

from functools import cache
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry

from sharder.metrics.client_go import CLIENT_GO
from sharder.metrics.collectors import RING, Metrics, Table

RECONCILE_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Seconds: some of the buckets of controller-runtime."""

_CONTROLLER: Final = ("controller",)
_RESOURCE: Final = (RING, "group", "resource")

_COUNTS: Final = {
    "controller_runtime_reconcile_total": (
        "Reconciles by result: `success`, `requeue_after`, `error`, or `cancelled` when "
        "the object was drained or deleted, or the shard stopped",
        *(*_CONTROLLER, "result"),
    ),
    "controller_runtime_reconcile_errors_total": ("Reconciles that failed", *_CONTROLLER),
    "controller_runtime_terminal_reconcile_errors_total": (
        "Reconciles that failed and are not retried",
        *_CONTROLLER,
    ),
    "controller_sharding_lease_renewals_total": (
        "Attempts of this shard to take or renew its Lease, by result: `success`, or "
        "`error` without an answer in time",
        *(RING, "result"),
    ),
}
_TIMES: Final = {
    "controller_runtime_reconcile_time_seconds": (
        RECONCILE_BUCKETS,
        ("Time of a reconcile", *_CONTROLLER),
    ),
}
_GAUGES: Final = {
    "controller_runtime_active_workers": ("Reconciles that run now", *_CONTROLLER),
    "controller_runtime_max_concurrent_reconciles": (
        "How many reconciles can run at a time",
        *_CONTROLLER,
    ),
    "controller_sharding_owned_objects": ("Main objects that this shard owns", *_RESOURCE),
}
_SHARD: Final = Table(_COUNTS, _TIMES, _GAUGES)


def shard_metrics(registry: CollectorRegistry | None = None) -> Metrics:
    """Register all metrics of shards, by default on a registry of their own, and return them.

    A controller has the name of its main resource.
    """
    return Metrics(registry or CollectorRegistry(), _SHARD, CLIENT_GO)


@cache
def process_metrics() -> Metrics:
    """Return the metrics of this process, on the library's default registry."""
    return shard_metrics(REGISTRY)

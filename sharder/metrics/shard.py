"""The metrics of a shard, with the names of controller-runtime and client-go where they have them.

They are on the default registry of the process, beside the author's own metrics.
"""

from collections.abc import Callable
from functools import cache
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from sharder.core.names import GroupResource, RingName
from sharder.metrics.client_go import ClientGoMetrics
from sharder.metrics.collectors import RING, Families

PREFIX: Final = "controller_sharding_"

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
    PREFIX + "lease_renewals_total": (
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
    PREFIX + "owned_objects": ("Main objects that this shard owns", *_RESOURCE),
}


class ShardMetrics(ClientGoMetrics):
    """The metrics of the shards of one process; a controller has the name of its main resource."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Register all metrics, by default on a registry of their own."""
        registry = registry or CollectorRegistry()
        super().__init__(registry)
        self._registry = registry
        self._running: dict[str, int] = {}
        families = Families(registry)
        counts = families.counts(_COUNTS).values()
        self._reconciles, self._errors, self._permanent, self._renewals = counts
        (self._seconds,) = families.times(_TIMES).values()
        self._active, self._limit, self._objects = families.gauges(_GAUGES).values()

    def renewed(self, ring: RingName, *, succeeded: bool) -> None:
        """Count an attempt to take or to renew the Lease."""
        self._renewals.add(ring, "success" if succeeded else "error")

    def show_controller(
        self,
        ring: RingName,
        resource: GroupResource,
        *,
        objects: Callable[[], int],
        workers: int,
    ) -> None:
        """Show the gauges of a running controller; another thread can call `objects`."""
        name = str(resource)
        self._objects.show(objects, ring, resource.group, resource.resource)
        self._limit.show(lambda: workers, name)
        self._active.show(lambda: self._running.get(name, 0), name)

    def hide_controller(self, ring: RingName, resource: GroupResource) -> None:
        """Hide the gauges of a controller."""
        name = str(resource)
        self._objects.hide(ring, resource.group, resource.resource)
        self._limit.hide(name)
        self._active.hide(name)

    def began(self, resource: GroupResource) -> None:
        """Count a reconcile as running."""
        name = str(resource)
        self._running[name] = self._running.get(name, 0) + 1

    def ended(self, resource: GroupResource, result: str, seconds: float) -> None:
        """Count a reconcile by its result, and record how long it took."""
        name = str(resource)
        self._running[name] -= 1
        self._reconciles.add(name, result)
        self._seconds.observe(seconds, name)
        if result == "error":
            self._errors.add(name)

    def gave_up(self, resource: GroupResource) -> None:
        """Count a reconcile that is not retried."""
        self._permanent.add(str(resource))

    def render(self) -> tuple[bytes, str]:
        """Return all metrics of the registry in Prometheus' text format, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_PLAIN_0_0_4


@cache
def process_metrics() -> ShardMetrics:
    """Return the metrics of this process, on the library's default registry."""
    return ShardMetrics(REGISTRY)

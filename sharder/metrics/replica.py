"""The metrics of one replica: its watches, leadership, certificates, ports and event loop."""

from collections.abc import Callable
from datetime import datetime

from sharder.metrics.collectors import Families

LAG_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
"""Seconds: from the target of an answer to the API server's timeout."""


_GAUGES = {
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
_LAG = (
    "Seconds by which the event loop is late, sampled twice a second; admission waits as long",
)


class ReplicaMetrics:
    """The metrics of one process that concern no ring."""

    def __init__(self, families: Families, *, version: str) -> None:
        """Register the metrics; `version` is the running version."""
        self._gauges = families.gauges(_GAUGES)
        self._gauges["leader"].show(0)
        self._gauges["build_info"].show(1, version)
        lag = families.times({"event_loop_lag_seconds": (LAG_BUCKETS, _LAG)})
        self._lag_seconds = lag["event_loop_lag_seconds"]

    def lagged(self, seconds: float) -> None:
        """Record a delay of the event loop."""
        self._lag_seconds.observe(seconds)

    def set_leading(self, *, leading: bool) -> None:
        """Show whether this process leads."""
        self._gauges["leader"].show(leading)

    def show_watch(self, watch: str, is_healthy: Callable[[], bool]) -> None:
        """Show whether a watch works; `is_healthy` is called at each scrape."""
        self._gauges["watch_healthy"].show(is_healthy, watch)

    def show_connections(self, port: str, count: Callable[[], float]) -> None:
        """Show the open connections of a port; `count` is called at each scrape."""
        self._gauges["connections"].show(count, port)

    def set_certificate_expiry(
        self, *, serving: datetime | None, authority: datetime | None
    ) -> None:
        """Show the expiry of the serving certificate and its CA; None is not shown."""
        for name, end in (("serving", serving), ("authority", authority)):
            if end is not None:
                self._gauges["certificate_expiry_timestamp_seconds"].show(end.timestamp(), name)

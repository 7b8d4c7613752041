"""The metrics of one replica: its watches, leadership, certificates, ports and event loop."""

from collections.abc import Callable
from datetime import datetime

from sharder.metrics.collectors import Families

LAG_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
"""Seconds: from the target of an answer to the API server's timeout."""


class ReplicaMetrics:
    """The metrics of one process that concern no ring."""

    def __init__(self, families: Families, *, version: str) -> None:
        """Register the metrics; `version` is the running version."""
        self._watch_healthy = families.gauge(
            "watch_healthy",
            "1 while this replica's watch of rings, Leases or namespaces works, else 0",
            "watch",
        )
        self._leading = families.gauge("leader", "1 while this replica leads, else 0")
        self._leading.show(0)
        self._certificate_expiry = families.gauge(
            "certificate_expiry_timestamp_seconds",
            "Unix time at which the serving certificate, or the CA that signed it, expires",
            "certificate",
        )
        self._connections = families.gauge(
            "connections",
            "Open connections of a port of this replica, TLS handshakes included",
            "port",
        )
        families.gauge("build_info", "1, with the running version", "version").show(1, version)
        self._lag_seconds = families.times(
            "event_loop_lag_seconds",
            "Seconds by which the event loop is late, sampled twice a second; admission "
            "waits as long",
            LAG_BUCKETS,
        )

    def lagged(self, seconds: float) -> None:
        """Record a delay of the event loop."""
        self._lag_seconds.observe(seconds)

    def set_leading(self, *, leading: bool) -> None:
        """Show whether this process leads."""
        self._leading.show(leading)

    def show_watch(self, watch: str, is_healthy: Callable[[], bool]) -> None:
        """Show whether a watch works; `is_healthy` is called at each scrape."""
        self._watch_healthy.show(is_healthy, watch)

    def show_connections(self, port: str, count: Callable[[], float]) -> None:
        """Show the open connections of a port; `count` is called at each scrape."""
        self._connections.show(count, port)

    def set_certificate_expiry(
        self, *, serving: datetime | None, authority: datetime | None
    ) -> None:
        """Show the expiry of the serving certificate and its CA; None is not shown."""
        for name, end in (("serving", serving), ("authority", authority)):
            if end is not None:
                self._certificate_expiry.show(end.timestamp(), name)

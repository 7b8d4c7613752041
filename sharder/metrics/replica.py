"""The metrics of one replica: its watches, leadership, certificates, ports and event loop."""

from typing import Final

from sharder.metrics.collectors import Histograms

LAG_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
"""Seconds: from the target of an answer to the API server's timeout."""

REPLICA_GAUGES: Final = {
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
REPLICA_TIMES: Final[Histograms] = {
    "event_loop_lag_seconds": (
        LAG_BUCKETS,
        (
            "Seconds by which the event loop is late, sampled twice a second; admission waits as "
            "long",
        ),
    )
}

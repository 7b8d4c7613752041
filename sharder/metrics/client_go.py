"""Metrics of requests and work queues, with the names of client-go and controller-runtime.

So dashboards and alerts for other controllers find them.
"""

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry

from sharder.metrics.collectors import Families

WORK_BUCKETS: Final = (0.001, 0.01, 0.1, 0.5, 1, 5, 10, 60, 300)
"""Seconds: from a comparison, or a free worker, to a pass over a large ring, or a queue that
cannot keep up."""

_QUEUE: Final = ("name",)

_COUNTS: Final = {
    "rest_client_requests_total": (
        "Requests to the API server by method and HTTP status; 429 is throttling by API "
        "Priority and Fairness, <error> a request without an answer, <rewound> a watch that "
        "lists again after etcd was restored",
        *("code", "method"),
    ),
    "workqueue_adds_total": ("Keys that became due in a queue, each once", *_QUEUE),
    "workqueue_retries_total": ("Keys that are tried again after a failure", *_QUEUE),
}
_TIMES: Final = {
    "workqueue_work_duration_seconds": (WORK_BUCKETS, ("Time to handle one key", *_QUEUE)),
    "workqueue_queue_duration_seconds": (
        WORK_BUCKETS,
        ("Time from when a key is due until a worker handles it", *_QUEUE),
    ),
}
_GAUGES: Final = {
    "workqueue_depth": ("Keys that are due and wait for a worker", *_QUEUE),
    "workqueue_longest_running_processor_seconds": (
        "Seconds since the oldest key in work was taken from the queue; 0 without any",
        *_QUEUE,
    ),
}


class ClientGoMetrics:
    """The metrics of requests and queues."""

    def __init__(self, registry: CollectorRegistry) -> None:
        families = Families(registry)
        counts, times = families.counts(_COUNTS), families.times(_TIMES)
        self._requests, self._adds, self._retries = counts.values()
        self._work, self._waits = times.values()
        self._depths, self._longest = families.gauges(_GAUGES).values()

    def requested(self, method: str, code: str) -> None:
        """Count a request to the API server, watches included."""
        self._requests.add(code, method)

    def show_queue(
        self, queue: str, depth: Callable[[], int], longest: Callable[[], float]
    ) -> None:
        """Show the depth of a running queue, and for how long its oldest key has been handled."""
        self._depths.show(depth, queue)
        self._longest.show(longest, queue)

    def hide_queue(self, queue: str) -> None:
        """Hide the gauges of a queue."""
        self._depths.hide(queue)
        self._longest.hide(queue)

    def added(self, queue: str, waited: float) -> None:
        """Count a key that became due, and record how long it waited."""
        self._adds.add(queue)
        self._waits.observe(waited, queue)

    def retried(self, queue: str) -> None:
        """Count a key that is tried again."""
        self._retries.add(queue)

    def worked(self, queue: str, seconds: float) -> None:
        """Record how long a key was handled."""
        self._work.observe(seconds, queue)

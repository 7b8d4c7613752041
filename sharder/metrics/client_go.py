"""Metrics of requests and work queues, with the names of client-go and controller-runtime.

So dashboards and alerts for other controllers find them.
"""

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry

from sharder.metrics.collectors import Counts, Readings, Times

WORK_BUCKETS: Final = (0.001, 0.01, 0.1, 0.5, 1, 5, 10, 60, 300)
"""Seconds: from a comparison to a pass over a large ring."""

WAIT_BUCKETS: Final = (0.001, 0.01, 0.1, 0.5, 1, 5, 10, 60, 300)
"""Seconds: from a free worker to a queue that cannot keep up."""


class ClientGoMetrics:
    """The metrics of requests and queues."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counts(
            "rest_client_requests_total",
            "Requests to the API server by method and HTTP status; 429 is throttling by API "
            "Priority and Fairness, <error> a request without an answer, <rewound> a watch that "
            "lists again after etcd was restored",
            ("code", "method"),
        )
        self._adds = Counts(
            "workqueue_adds_total", "Keys that became due in a queue, each once", ("name",)
        )
        self._retries = Counts(
            "workqueue_retries_total", "Keys that are tried again after a failure", ("name",)
        )
        self._work = Times(
            "workqueue_work_duration_seconds", "Time to handle one key", WORK_BUCKETS, ("name",)
        )
        self._waits = Times(
            "workqueue_queue_duration_seconds",
            "Time from when a key is due until a worker handles it",
            WAIT_BUCKETS,
            ("name",),
        )
        self._depths = Readings(
            "workqueue_depth", "Keys that are due and wait for a worker", ("name",)
        )
        self._longest = Readings(
            "workqueue_longest_running_processor_seconds",
            "Seconds since the oldest key in work was taken from the queue; 0 without any",
            ("name",),
        )
        for collector in (
            *(self._requests, self._adds, self._retries, self._work, self._waits),
            *(self._depths, self._longest),
        ):
            registry.register(collector)

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

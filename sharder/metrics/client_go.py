"""Metrics of requests and work queues, with the names of client-go and controller-runtime.

So dashboards and alerts for other controllers find them.
"""

from typing import Final

from sharder.metrics.collectors import Table

WORK_BUCKETS: Final = (0.001, 0.01, 0.1, 0.5, 1, 5, 10, 60, 300)
"""Seconds: from a comparison, or a free worker, to a pass over a large ring, or a queue that
cannot keep up."""

_QUEUE: Final = ("name",)

_COUNTS: Final = {
    "rest_client_requests_total": (
        "Requests to the API server by method and HTTP status; 429 is throttling by API "
        "Priority and Fairness, <error> a request without an answer, <rewound> a watch that "
        "lists again after etcd was restored",
        *("method", "code"),
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
CLIENT_GO: Final = Table(_COUNTS, _TIMES, _GAUGES)

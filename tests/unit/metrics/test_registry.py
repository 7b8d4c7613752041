"""The series that are shown, by name and label, and that nothing stays behind."""

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from sharder.core.names import GroupResource, RingName, ShardName
from sharder.core.status.phases import Kind, Transition
from sharder.metrics.registry import Metrics

RING = RingName("demo")
SHARD = ShardName("shard-a")
WIDGETS = GroupResource("example.com", "widgets")


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> Metrics:
    return Metrics(registry, version="1.2.3")


class Backlog:
    """Three objects, the oldest five seconds old, until it changes."""

    def __init__(self) -> None:
        self.objects, self.seconds = 3, 5.0

    def count(self) -> int:
        return self.objects

    def age(self) -> float:
        return self.seconds

    def by_shard(self) -> dict[ShardName, tuple[int, float]]:
        return {SHARD: (self.objects, self.seconds)}


def use_everything(metrics: Metrics, ring: RingName = RING) -> None:
    """Touch every series of a ring."""
    metrics.answered(ring, "assigned", 0.25)
    metrics.assigned(ring, WIDGETS)
    metrics.moved(ring, WIDGETS)
    metrics.drained(ring, WIDGETS)
    metrics.failed(ring, WIDGETS)
    metrics.show_backlogs(ring, WIDGETS, unassigned=Backlog(), draining=Backlog())
    metrics.show_overdue(ring, WIDGETS, drains=1)
    metrics.withheld(ring, "maxMovesPerMinute")
    metrics.rebalanced(ring)
    metrics.show_planned_moves(ring, 5)
    metrics.calculated(ring)
    metrics.resynced(ring, 2.5)
    metrics.handed_over(ring, "lost", 31)
    metrics.happened(ring, Transition(kind=Kind.LOST))
    metrics.show_ring(ring, [("shard_objects", ("ns", "gone", ring), 1)])
    metrics.show_ring(
        ring,
        [
            ("controllerring_unreadable", (ring,), 1),
            ("shard_objects", ("ns", SHARD, ring), 2),
            ("shard_objects", ("ns", "shard-b", ring), 4),
        ],
    )


def use_the_process(metrics: Metrics) -> None:
    """Touch every series that belongs to no ring."""
    metrics.client_go.requested("GET", "429")
    metrics.client_go.show_queue("resync", lambda: 2, lambda: 2.5)
    metrics.client_go.added("resync", 0.25)
    metrics.client_go.retried("resync")
    metrics.client_go.worked("resync", 0.5)
    metrics.replica["watch_healthy"].show(lambda: True, "leases")
    metrics.replica["leader"].show(1)


SHOWN = """\
admission_answers_total{controllerring="demo",outcome="assigned"} 1.0
admission_duration_seconds_count{controllerring="demo",outcome="assigned"} 1.0
admission_duration_seconds_sum{controllerring="demo",outcome="assigned"} 0.25
assignments_total{controllerring="demo",group="example.com",resource="widgets"} 1.0
controllerring_unreadable{controllerring="demo"} 1.0
draining_objects{controllerring="demo",group="example.com",resource="widgets"} 3.0
draining_oldest_seconds{controllerring="demo",group="example.com",resource="widgets"} 5.0
drains_total{controllerring="demo",group="example.com",resource="widgets"} 1.0
drains_withheld_total{controllerring="demo",limit="maxMovesPerMinute"} 1.0
handover_seconds_count{controllerring="demo",reason="lost"} 1.0
handover_seconds_sum{controllerring="demo",reason="lost"} 31.0
movements_total{controllerring="demo",group="example.com",resource="widgets"} 1.0
object_failures_total{controllerring="demo",group="example.com",resource="widgets"} 1.0
overdue_drains{controllerring="demo",group="example.com",resource="widgets"} 1.0
rebalance_moves_total{controllerring="demo"} 1.0
rebalance_planned_moves{controllerring="demo"} 5.0
resync_duration_seconds_count{controllerring="demo"} 1.0
resync_duration_seconds_sum{controllerring="demo"} 2.5
ring_calculations_total{controllerring="demo"} 1.0
shard_objects{controllerring="demo",namespace="ns",shard="shard-a"} 2.0
shard_objects{controllerring="demo",namespace="ns",shard="shard-b"} 4.0
transitions_total{controllerring="demo",reason="ShardLost"} 1.0
unassigned_objects{controllerring="demo",group="example.com",resource="widgets"} 3.0
unassigned_oldest_seconds{controllerring="demo",group="example.com",resource="widgets"} 5.0
"""
"""What is shown of a ring after one use of each series."""

SHOWN_OF_THE_PROCESS = """\
leader 1.0
rest_client_requests_total{code="429",method="GET"} 1.0
watch_healthy{watch="leases"} 1.0
workqueue_adds_total{name="resync"} 1.0
workqueue_depth{name="resync"} 2.0
workqueue_longest_running_processor_seconds{name="resync"} 2.5
workqueue_queue_duration_seconds_count{name="resync"} 1.0
workqueue_queue_duration_seconds_sum{name="resync"} 0.25
workqueue_retries_total{name="resync"} 1.0
workqueue_work_duration_seconds_count{name="resync"} 1.0
workqueue_work_duration_seconds_sum{name="resync"} 0.5
"""


def lines(metrics: Metrics) -> set[str]:
    """Return the samples of the page, without those of Python and the buckets of histograms."""
    page = metrics.render()[0].decode().splitlines()
    return {
        line.removeprefix("controller_sharding_")
        for line in page
        if not line.startswith(("#", "python_", "process_")) and "_bucket{" not in line
    }


def test_each_use_of_a_ring_is_shown(metrics: Metrics) -> None:
    before = lines(metrics)
    use_everything(metrics)

    assert sorted(lines(metrics) - before) == SHOWN.splitlines()


def test_each_use_of_the_process_is_shown(metrics: Metrics) -> None:
    before = lines(metrics)
    use_the_process(metrics)

    assert sorted(lines(metrics) - before) == SHOWN_OF_THE_PROCESS.splitlines()


def test_a_removed_ring_leaves_no_series(metrics: Metrics) -> None:
    use_everything(metrics)
    assert metrics.render()[0].count(b'"demo"') > 20

    metrics.forget(RING)

    assert b"demo" not in metrics.render()[0]


def test_what_is_rendered_can_be_read_by_prometheus(metrics: Metrics) -> None:
    use_everything(metrics)

    text, content_type = metrics.render()

    families = list(text_string_to_metric_families(text.decode()))
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    prefixes = ("controller_sharding_", "process_", "python_", "rest_client_", "workqueue_")
    assert all(family.name.startswith(prefixes) for family in families)
    assert not any("_created" in family.name for family in families)

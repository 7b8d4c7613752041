"""The series that are shown, by name and label, and that nothing stays behind."""

import gc
import sys
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from sharder.core.names import GroupResource, RingName, ShardName
from sharder.core.status.stats import ShardLoad
from sharder.core.status.transitions import Kind, Transition
from sharder.metrics.registry import Metrics

RING, OTHER = RingName("demo"), RingName("other")
SHARD = ShardName("shard-a")
WIDGETS = GroupResource("example.com", "widgets")
RESOURCE = {"controllerring": "demo", "group": "example.com", "resource": "widgets"}
STATES = ("ready", "dead")
BACKLOGS = (
    "unassigned_objects",
    "unassigned_oldest_seconds",
    "draining_objects",
    "draining_oldest_seconds",
)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> Metrics:
    return Metrics(registry, version="1.2.3", shard_states=STATES)


def show_ring(metrics: Metrics, ring: RingName = RING, uid: str = "u") -> None:
    metrics.rings.set_ring(
        ring,
        uid=uid,
        generation=4,
        observed_generation=3,
        shards=2,
        available_shards=1,
        invalid_leases=3,
    )


def show_shard(metrics: Metrics, uid: str = "u", state: str = "ready") -> None:
    metrics.rings.set_shard(RING, namespace="ns", shard=SHARD, uid=uid, state=state)


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


def load(objects: int, ceiling: int | None, shard: ShardName = SHARD) -> ShardLoad:
    return ShardLoad(namespace="ns", shard=shard, objects=objects, ceiling=ceiling)


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
    metrics.show_load(ring, objects=7, shards=[load(2, 10), load(4, None, ShardName("shard-b"))])
    metrics.rings.calculated(ring)
    metrics.resynced(ring, 2.5)
    metrics.handed_over(ring, "lost", 31)
    metrics.happened(ring, Transition(kind=Kind.LOST))
    metrics.show_conditions(ring, {"Ready": "True"})
    metrics.rings.set_unreadable(ring, unreadable=True)
    show_ring(metrics, ring)
    show_shard(metrics)


def use_the_process(metrics: Metrics) -> None:
    """Touch every series that belongs to no ring."""
    metrics.client_go.requested("GET", "429")
    metrics.client_go.show_queue("resync", lambda: 2, lambda: 2.5)
    metrics.client_go.added("resync", 0.25)
    metrics.client_go.retried("resync")
    metrics.client_go.worked("resync", 0.5)
    metrics.replica.show_watch("leases", lambda: True)
    metrics.replica.set_leading(leading=True)


SHOWN = """\
admission_answers_total{controllerring="demo",outcome="assigned"} 1.0
admission_duration_seconds_count{controllerring="demo",outcome="assigned"} 1.0
admission_duration_seconds_sum{controllerring="demo",outcome="assigned"} 0.25
assignments_total{controllerring="demo",group="example.com",resource="widgets"} 1.0
controllerring_condition{condition="Ready",controllerring="demo",status="False"} 0.0
controllerring_condition{condition="Ready",controllerring="demo",status="True"} 1.0
controllerring_condition{condition="Ready",controllerring="demo",status="Unknown"} 0.0
controllerring_metadata_generation{controllerring="demo",uid="u"} 4.0
controllerring_objects{controllerring="demo"} 7.0
controllerring_observed_generation{controllerring="demo",uid="u"} 3.0
controllerring_status_available_shards{controllerring="demo",uid="u"} 1.0
controllerring_status_shards{controllerring="demo",uid="u"} 2.0
controllerring_unreadable{controllerring="demo"} 1.0
draining_objects{controllerring="demo",group="example.com",resource="widgets"} 3.0
draining_oldest_seconds{controllerring="demo",group="example.com",resource="widgets"} 5.0
drains_total{controllerring="demo",group="example.com",resource="widgets"} 1.0
drains_withheld_total{controllerring="demo",limit="maxMovesPerMinute"} 1.0
handover_seconds_count{controllerring="demo",reason="lost"} 1.0
handover_seconds_sum{controllerring="demo",reason="lost"} 31.0
invalid_leases{controllerring="demo"} 3.0
movements_total{controllerring="demo",group="example.com",resource="widgets"} 1.0
object_failures_total{controllerring="demo",group="example.com",resource="widgets"} 1.0
overdue_drains{controllerring="demo",group="example.com",resource="widgets"} 1.0
rebalance_moves_total{controllerring="demo"} 1.0
rebalance_planned_moves{controllerring="demo"} 5.0
resync_duration_seconds_count{controllerring="demo"} 1.0
resync_duration_seconds_sum{controllerring="demo"} 2.5
ring_calculations_total{controllerring="demo"} 1.0
shard_capacity{controllerring="demo",namespace="ns",shard="shard-a"} 10.0
shard_info{controllerring="demo",namespace="ns",shard="shard-a",uid="u"} 1.0
shard_objects{controllerring="demo",namespace="ns",shard="shard-a"} 2.0
shard_objects{controllerring="demo",namespace="ns",shard="shard-b"} 4.0
shard_state{controllerring="demo",namespace="ns",shard="shard-a",state="dead"} 0.0
shard_state{controllerring="demo",namespace="ns",shard="shard-a",state="ready"} 1.0
shard_state{controllerring="demo",namespace="ns",shard="shard-a",state="unknown"} 0.0
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


def series(registry: CollectorRegistry, name: str) -> list[tuple[dict[str, str], float]]:
    """All samples of a name."""
    samples = (sample for family in registry.collect() for sample in family.samples)
    return [(dict(s.labels), s.value) for s in samples if s.name == "controller_sharding_" + name]


def test_each_use_of_a_ring_is_shown(metrics: Metrics) -> None:
    before = lines(metrics)
    use_everything(metrics)

    assert sorted(lines(metrics) - before) == SHOWN.splitlines()


def test_each_use_of_the_process_is_shown(metrics: Metrics) -> None:
    before = lines(metrics)
    use_the_process(metrics)

    assert sorted(lines(metrics) - before) == SHOWN_OF_THE_PROCESS.splitlines()


HIDDEN: dict[str, Callable[[Metrics], None]] = {
    "overdue_drains": lambda metrics: metrics.hide_backlogs(RING, WIDGETS),
    "unassigned_objects": lambda metrics: metrics.hide_backlogs(RING, WIDGETS),
    "draining_oldest_seconds": lambda metrics: metrics.hide_backlogs(RING, WIDGETS),
    "rebalance_planned_moves": lambda metrics: metrics.hide_planned_moves(RING),
    "controllerring_objects": lambda metrics: metrics.hide_load(RING),
    "shard_objects": lambda metrics: metrics.hide_load(RING),
    "shard_capacity": lambda metrics: metrics.hide_load(RING),
    "controllerring_condition": lambda metrics: metrics.hide_conditions(RING),
    "controllerring_unreadable": lambda metrics: metrics.rings.remove_ring(RING),
    "shard_info": lambda metrics: metrics.rings.remove_shard(RING, namespace="ns", shard=SHARD),
    "shard_state": lambda metrics: metrics.rings.remove_shard(RING, namespace="ns", shard=SHARD),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_is_hidden_even_twice_is_not_shown(
    registry: CollectorRegistry, metrics: Metrics, name: str
) -> None:
    use_everything(metrics)
    assert series(registry, name)

    HIDDEN[name](metrics)
    HIDDEN[name](metrics)

    assert series(registry, name) == []


def test_backlogs_are_shown_as_they_are_at_each_scrape(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    unassigned, draining = Backlog(), Backlog()
    metrics.show_backlogs(RING, WIDGETS, unassigned=unassigned, draining=draining)
    unassigned.objects, unassigned.seconds = 4, 6.0

    assert [series(registry, name) for name in BACKLOGS] == [
        [(RESOURCE, 4)],
        [(RESOURCE, 6)],
        [(RESOURCE, 3)],
        [(RESOURCE, 5)],
    ]


def test_loads_replace_those_of_the_same_ring(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    metrics.show_load(OTHER, objects=1, shards=[load(1, None)])
    metrics.show_load(RING, objects=2, shards=[load(2, 10), load(0, 10, ShardName("gone"))])

    metrics.show_load(RING, objects=3, shards=[load(3, None)])

    assert [value for _, value in series(registry, "controllerring_objects")] == [1, 3]
    assert [value for _, value in series(registry, "shard_objects")] == [1, 3]
    assert series(registry, "shard_capacity") == []


def test_each_condition_has_one_status(registry: CollectorRegistry, metrics: Metrics) -> None:
    metrics.show_conditions(RING, {"Ready": "True", "Covered": "True"})
    metrics.show_conditions(RING, {"Ready": "False"})

    shown = {
        (labels["condition"], labels["status"]): value
        for labels, value in series(registry, "controllerring_condition")
    }
    assert shown == {("Ready", "True"): 0, ("Ready", "False"): 1, ("Ready", "Unknown"): 0}


def test_every_help_text_is_a_sentence_of_its_own(metrics: Metrics) -> None:
    families = list(text_string_to_metric_families(metrics.render()[0].decode()))

    texts = [family.documentation for family in families if family.name.startswith("controller_")]
    assert len(texts) > 30
    assert [text for text in texts if len(text.split()) < 4] == []
    assert len({*texts}) == len(texts)


@pytest.mark.parametrize("name", ["controllerring_status_shards", "shard_info"])
def test_what_is_created_again_replaces_what_was_before(
    registry: CollectorRegistry, metrics: Metrics, name: str
) -> None:
    for uid in ("old", "new"):
        show_ring(metrics, uid=uid)
        show_shard(metrics, uid=uid)

    assert [labels["uid"] for labels, _ in series(registry, name)] == ["new"]


@pytest.mark.parametrize(
    ("state", "present"), [("ready", "ready"), ("dead", "dead"), ("", "unknown"), ("x", "unknown")]
)
def test_a_shard_is_in_one_state_at_a_time(
    registry: CollectorRegistry, metrics: Metrics, state: str, present: str
) -> None:
    show_shard(metrics, state="ready")
    show_shard(metrics, state=state)

    states = {labels["state"]: value for labels, value in series(registry, "shard_state")}
    assert states == {word: word == present for word in (*STATES, "unknown")}


def test_a_removed_shard_leaves_its_namesakes(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    show_shard(metrics)

    metrics.rings.remove_shard(RING, namespace="elsewhere", shard=SHARD)
    metrics.rings.remove_shard(OTHER, namespace="ns", shard=SHARD)

    assert len(series(registry, "shard_info")) == 1


def test_a_removed_ring_leaves_no_series(registry: CollectorRegistry, metrics: Metrics) -> None:
    use_everything(metrics)
    assert metrics.render()[0].count(b'"demo"') > 20

    metrics.rings.remove_ring(RING)

    assert b"demo" not in metrics.render()[0]


def test_a_removed_ring_leaves_the_others(registry: CollectorRegistry, metrics: Metrics) -> None:
    use_everything(metrics)
    metrics.assigned(OTHER, WIDGETS)
    show_ring(metrics, OTHER)
    metrics.rings.remove_ring(RING)
    metrics.assigned(OTHER, WIDGETS)

    assert [value for _, value in series(registry, "assignments_total")] == [2]
    assert len(series(registry, "controllerring_status_shards")) == 1


def test_a_ring_that_comes_back_counts_from_zero(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    use_everything(metrics)
    metrics.rings.remove_ring(RING)

    use_everything(metrics)

    assert series(registry, "assignments_total") == [(RESOURCE, 1)]
    assert len(series(registry, "shard_info")) == 1


def test_what_is_rendered_can_be_read_by_prometheus(metrics: Metrics) -> None:
    use_everything(metrics)

    text, content_type = metrics.render()

    families = list(text_string_to_metric_families(text.decode()))
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    prefixes = ("controller_sharding_", "process_", "python_", "rest_client_", "workqueue_")
    assert all(family.name.startswith(prefixes) for family in families)
    assert not any("_created" in family.name for family in families)


def test_the_end_of_certificates_is_shown_as_far_as_it_is_known(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    name = "certificate_expiry_timestamp_seconds"
    metrics.replica.set_certificate_expiry(
        serving=datetime(2026, 3, 1, tzinfo=UTC), authority=None
    )
    at_first = series(registry, name)

    metrics.replica.set_certificate_expiry(
        serving=datetime(2026, 3, 2, tzinfo=UTC), authority=datetime(2036, 3, 1, tzinfo=UTC)
    )

    assert at_first == [({"certificate": "serving"}, 1772323200)]
    assert series(registry, name) == [
        ({"certificate": "serving"}, 1772409600),
        ({"certificate": "authority"}, 2087942400),
    ]


def test_the_lag_of_the_event_loop_is_a_histogram(
    metrics: Metrics, registry: CollectorRegistry
) -> None:
    for seconds in (0.001, 0.02, 0.06, 3.0):
        metrics.replica.lagged(seconds)

    name = "controller_sharding_event_loop_lag_seconds_bucket"
    found = {le: registry.get_sample_value(name, {"le": le}) for le in ("0.005", "0.05", "5.0")}
    assert found == {"0.005": 1, "0.05": 2, "5.0": 4}


def calls_to_show(shards: int) -> int:
    """Return how many functions are called to show one more shard beside so many."""
    metrics = Metrics(CollectorRegistry(), version="1", shard_states=STATES)
    show_ring(metrics)
    names = [ShardName(f"shard-{number}") for number in range(shards)]
    for name in names:
        metrics.rings.set_shard(RING, namespace="ns", shard=name, uid="u", state="ready")
    calls = 0

    def count(_frame: object, _event: str, _arg: object) -> None:
        nonlocal calls
        calls += 1

    gc.collect()
    gc.disable()  # finalizers of other tests' objects would be counted
    sys.setprofile(count)
    try:
        show_ring(metrics, uid="another")
        metrics.rings.set_shard(RING, namespace="ns", shard=SHARD, uid="u", state="ready")
        metrics.rings.set_shard(RING, namespace="ns", shard=SHARD, uid="another", state="dead")
        metrics.rings.remove_shard(RING, namespace="ns", shard=SHARD)
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


def test_a_shard_costs_the_same_however_many_others_are_shown() -> None:
    assert calls_to_show(400) == calls_to_show(10)

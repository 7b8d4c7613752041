"""The series that are shown, by name and label, and that nothing stays behind."""

import gc
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from sharder.core.names import GroupResource, ObjectRef, RingName, ShardName
from sharder.core.status.stats import ShardLoad
from sharder.core.status.transition_messages import Kind, Transition
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

    def older_than(self, _: float) -> Iterator[tuple[ObjectRef, tuple[float, ShardName]]]:
        return iter(())


def load(objects: int, ceiling: int | None, shard: ShardName = SHARD) -> ShardLoad:
    return ShardLoad(namespace="ns", shard=shard, objects=objects, ceiling=ceiling)


def use_everything(metrics: Metrics) -> None:
    """Touch every series of the ring `demo`."""
    metrics.answered(RING, "assigned", 0.001)
    metrics.assigned(RING, WIDGETS)
    metrics.moved(RING, WIDGETS)
    metrics.drained(RING, WIDGETS)
    metrics.failed(RING, WIDGETS)
    metrics.show_backlogs(RING, WIDGETS, unassigned=Backlog(), draining=Backlog())
    metrics.show_overdue(RING, WIDGETS, drains=1)
    metrics.withheld(RING, "maxMovesPerMinute")
    metrics.rebalanced(RING)
    metrics.show_planned_moves(RING, 5)
    metrics.show_load(RING, objects=3, shards=[load(2, 10)])
    metrics.rings.calculated(RING)
    metrics.resynced(RING, 1)
    metrics.transitions.handed_over(RING, "lost", 31)
    metrics.transitions.rescued(RING, 32)
    metrics.transitions.happened(RING, Transition(kind=Kind.LOST))
    metrics.transitions.show_conditions(RING, {"Ready": "True"})
    show_ring(metrics)
    show_shard(metrics)


def series(registry: CollectorRegistry, name: str) -> list[tuple[dict[str, str], float]]:
    """All samples of a name."""
    samples = (sample for family in registry.collect() for sample in family.samples)
    return [(dict(s.labels), s.value) for s in samples if s.name == "controller_sharding_" + name]


def test_assignments_are_counted_by_resource(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    metrics.assigned(RING, WIDGETS)
    metrics.assigned(RING, WIDGETS)

    assert series(registry, "assignments_total") == [(RESOURCE, 2)]


def test_movements_are_counted_by_resource(registry: CollectorRegistry, metrics: Metrics) -> None:
    metrics.moved(RING, WIDGETS)

    assert series(registry, "movements_total") == [(RESOURCE, 1)]


def test_drains_are_counted_by_resource(registry: CollectorRegistry, metrics: Metrics) -> None:
    metrics.drained(RING, WIDGETS)

    assert series(registry, "drains_total") == [(RESOURCE, 1)]


def test_drains_that_are_withheld_are_counted_by_what_limits_them(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    metrics.withheld(RING, "maxMovesPerMinute")
    metrics.withheld(RING, "maxMovesPerMinute")
    metrics.withheld(RING, "maxConcurrentDrains")

    assert series(registry, "drains_withheld_total") == [
        ({"controllerring": RING, "limit": "maxMovesPerMinute"}, 2),
        ({"controllerring": RING, "limit": "maxConcurrentDrains"}, 1),
    ]


def test_overdue_drains_are_shown_until_the_backlogs_are_hidden(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    metrics.show_overdue(RING, WIDGETS, drains=3)
    shown = series(registry, "overdue_drains")
    metrics.hide_backlogs(RING, WIDGETS)

    assert (shown, series(registry, "overdue_drains")) == ([(RESOURCE, 3)], [])


def test_moves_for_balance_are_counted(registry: CollectorRegistry, metrics: Metrics) -> None:
    metrics.rebalanced(RING)
    metrics.rebalanced(RING)

    assert series(registry, "rebalance_moves_total") == [({"controllerring": RING}, 2)]


def test_the_moves_of_the_last_look_are_shown_until_they_are_hidden(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    metrics.show_planned_moves(RING, 5)
    metrics.show_planned_moves(RING, 2)
    shown = series(registry, "rebalance_planned_moves")
    metrics.hide_planned_moves(RING)
    metrics.hide_planned_moves(RING)

    assert shown == [({"controllerring": RING}, 2)]
    assert series(registry, "rebalance_planned_moves") == []


def test_failures_are_counted_by_resource(registry: CollectorRegistry, metrics: Metrics) -> None:
    metrics.failed(RING, WIDGETS)

    assert series(registry, "object_failures_total") == [(RESOURCE, 1)]


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


def test_backlogs_that_are_hidden_are_not_shown(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    metrics.show_backlogs(RING, WIDGETS, unassigned=Backlog(), draining=Backlog())

    metrics.hide_backlogs(RING, WIDGETS)
    metrics.hide_backlogs(RING, WIDGETS)

    assert [series(registry, name) for name in BACKLOGS] == [[], [], [], []]


def test_loads_are_shown_beside_ceilings_where_there_are_any(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    other = ShardName("shard-b")
    metrics.show_load(RING, objects=7, shards=[load(2, 10), load(4, None, other)])

    labels = {"namespace": "ns", "controllerring": "demo"}
    a, b = labels | {"shard": SHARD}, labels | {"shard": other}
    assert series(registry, "controllerring_objects") == [({"controllerring": "demo"}, 7)]
    assert series(registry, "shard_objects") == [(a, 2), (b, 4)]
    assert series(registry, "shard_capacity") == [(a, 10)]


def test_loads_replace_those_of_the_same_ring(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    metrics.show_load(OTHER, objects=1, shards=[load(1, None)])
    metrics.show_load(RING, objects=2, shards=[load(2, 10), load(0, 10, ShardName("gone"))])

    metrics.show_load(RING, objects=3, shards=[load(3, None)])

    assert [value for _, value in series(registry, "controllerring_objects")] == [1, 3]
    assert [value for _, value in series(registry, "shard_objects")] == [1, 3]
    assert series(registry, "shard_capacity") == []


def test_loads_that_are_hidden_are_not_shown(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    metrics.show_load(RING, objects=2, shards=[load(2, 10)])

    metrics.hide_load(RING)
    metrics.hide_load(RING)

    names = ("controllerring_objects", "shard_objects", "shard_capacity")
    assert [series(registry, name) for name in names] == [[], [], []]


def test_calculated_rings_are_counted(registry: CollectorRegistry, metrics: Metrics) -> None:
    metrics.rings.calculated(RING)

    assert series(registry, "ring_calculations_total") == [({"controllerring": "demo"}, 1)]


def test_answers_are_counted_by_outcome(registry: CollectorRegistry, metrics: Metrics) -> None:
    metrics.answered(RING, "assigned", 0.001)
    metrics.answered(RingName(""), "malformed", 0.001)

    assert series(registry, "admission_answers_total") == [
        ({"controllerring": "demo", "outcome": "assigned"}, 1),
        ({"controllerring": "", "outcome": "malformed"}, 1),
    ]


def test_answers_are_timed(registry: CollectorRegistry, metrics: Metrics) -> None:
    metrics.answered(RING, "assigned", 0.25)
    metrics.answered(RING, "assigned", 0.5)
    metrics.answered(RING, "unchanged", 0.125)

    assigned = {"controllerring": "demo", "outcome": "assigned"}
    unchanged = {**assigned, "outcome": "unchanged"}
    assert series(registry, "admission_duration_seconds_count") == [(assigned, 2), (unchanged, 1)]
    assert series(registry, "admission_duration_seconds_sum") == [
        (assigned, 0.75),
        (unchanged, 0.125),
    ]


def test_resyncs_are_timed_by_ring(registry: CollectorRegistry, metrics: Metrics) -> None:
    metrics.resynced(RING, 2.5)

    labels = {"controllerring": "demo"}
    assert series(registry, "resync_duration_seconds_sum") == [(labels, 2.5)]


def test_handovers_are_timed_by_ring_and_reason(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    metrics.transitions.handed_over(RING, "drained", 0.25)
    metrics.transitions.handed_over(RING, "lost", 31)

    of_demo = {"controllerring": "demo"}
    assert series(registry, "handover_seconds_sum") == [
        ({**of_demo, "reason": "drained"}, 0.25),
        ({**of_demo, "reason": "lost"}, 31),
    ]


def test_rescues_are_timed_by_ring(registry: CollectorRegistry, metrics: Metrics) -> None:
    metrics.transitions.rescued(RING, 32)

    assert series(registry, "rescue_seconds_sum") == [({"controllerring": "demo"}, 32)]


def test_transitions_are_counted_by_the_reason_of_their_events(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    for _ in range(2):
        metrics.transitions.happened(RING, Transition(kind=Kind.LOST))

    labels = {"controllerring": "demo", "reason": "ShardLost"}
    assert series(registry, "transitions_total") == [(labels, 2)]


def test_each_condition_has_one_status(registry: CollectorRegistry, metrics: Metrics) -> None:
    metrics.transitions.show_conditions(RING, {"Ready": "True", "Covered": "True"})
    metrics.transitions.show_conditions(RING, {"Ready": "False"})

    shown = {
        (labels["condition"], labels["status"]): value
        for labels, value in series(registry, "controllerring_condition")
    }
    assert shown == {("Ready", "True"): 0, ("Ready", "False"): 1, ("Ready", "Unknown"): 0}


def test_hidden_conditions_are_not_shown(registry: CollectorRegistry, metrics: Metrics) -> None:
    metrics.transitions.show_conditions(RING, {"Ready": "True"})

    metrics.transitions.hide_conditions(RING)
    metrics.transitions.hide_conditions(OTHER)

    assert series(registry, "controllerring_condition") == []


def samples(registry: CollectorRegistry, name: str) -> dict[tuple[str, ...], float]:
    """The values of a series that is not the sharder's own, by its labels."""
    found = (sample for family in registry.collect() for sample in family.samples)
    return {tuple(s.labels.values()): s.value for s in found if s.name == name}


def test_requests_to_the_api_server_are_counted_by_status_and_method(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    for code in ("200", "429", "429"):
        metrics.client_go.requested("GET", code)

    requests = samples(registry, "rest_client_requests_total")
    assert requests == {("200", "GET"): 1, ("429", "GET"): 2}


def test_a_queue_shows_its_depth_while_it_runs(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    depth = [1, 2]

    metrics.client_go.show_queue("resync", lambda: len(depth), lambda: 2.5)
    depth.pop()
    names = ("workqueue_depth", "workqueue_longest_running_processor_seconds")
    shown = [samples(registry, name) for name in names]
    metrics.client_go.hide_queue("resync")

    assert shown == [{("resync",): 1}, {("resync",): 2.5}]
    assert [samples(registry, name) for name in names] == [{}, {}]


def test_the_work_of_a_queue_is_counted_and_timed(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    metrics.client_go.added("resync", 0.25)
    metrics.client_go.retried("resync")
    metrics.client_go.worked("resync", 0.5)

    assert samples(registry, "workqueue_adds_total") == {("resync",): 1}
    assert samples(registry, "workqueue_queue_duration_seconds_sum") == {("resync",): 0.25}
    assert samples(registry, "workqueue_retries_total") == {("resync",): 1}
    assert samples(registry, "workqueue_work_duration_seconds_sum") == {("resync",): 0.5}


def test_the_process_and_its_interpreter_are_shown(registry: CollectorRegistry) -> None:
    Metrics(registry, version="1.2.3", shard_states=STATES)

    names = {family.name for family in registry.collect()}
    assert {"process_resident_memory_bytes", "python_info", "python_gc_collections"} <= names


def test_every_help_text_is_a_sentence_of_its_own(metrics: Metrics) -> None:
    families = list(text_string_to_metric_families(metrics.render()[0].decode()))

    texts = [family.documentation for family in families if family.name.startswith("controller_")]
    assert len(texts) > 30
    assert [text for text in texts if len(text.split()) < 4] == []
    assert len({*texts}) == len(texts)


def test_a_ring_shows_its_object_and_its_status(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    show_ring(metrics)

    labels = {"controllerring": "demo", "uid": "u"}
    assert series(registry, "controllerring_metadata_generation") == [(labels, 4)]
    assert series(registry, "controllerring_observed_generation") == [(labels, 3)]
    assert series(registry, "controllerring_status_shards") == [(labels, 2)]
    assert series(registry, "controllerring_status_available_shards") == [(labels, 1)]
    assert series(registry, "invalid_leases") == [
        ({"controllerring": labels["controllerring"]}, 3)
    ]


def test_a_ring_created_again_replaces_the_one_before(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    show_ring(metrics, uid="old")
    show_ring(metrics, uid="new")

    [(labels, _)] = series(registry, "controllerring_status_shards")
    assert labels["uid"] == "new"


def test_a_shard_shows_who_it_is(registry: CollectorRegistry, metrics: Metrics) -> None:
    show_shard(metrics)

    labels = {"namespace": "ns", "shard": "shard-a", "controllerring": "demo", "uid": "u"}
    assert series(registry, "shard_info") == [(labels, 1)]


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


def test_a_lease_created_again_replaces_the_one_before(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    show_shard(metrics, uid="old")
    show_shard(metrics, uid="new")

    [(labels, _)] = series(registry, "shard_info")
    assert labels["uid"] == "new"


def test_a_removed_shard_leaves_no_series(registry: CollectorRegistry, metrics: Metrics) -> None:
    show_shard(metrics)

    metrics.rings.remove_shard(RING, namespace="ns", shard=SHARD)

    assert series(registry, "shard_info") == []
    assert series(registry, "shard_state") == []


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


def test_a_watch_is_shown_as_it_is_at_each_scrape(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    broken = set[str]()
    metrics.replica.show_watch("leases", lambda: not broken)
    at_first = series(registry, "watch_healthy")

    broken.add("leases")

    assert at_first == [({"watch": "leases"}, 1)]
    assert series(registry, "watch_healthy") == [({"watch": "leases"}, 0)]


@pytest.mark.parametrize("leading", [True, False])
def test_the_leader_is_shown(registry: CollectorRegistry, metrics: Metrics, leading: bool) -> None:
    metrics.replica.set_leading(leading=not leading)
    metrics.replica.set_leading(leading=leading)

    assert series(registry, "leader") == [({}, leading)]


def test_the_version_is_shown(registry: CollectorRegistry, metrics: Metrics) -> None:
    assert series(registry, "build_info") == [({"version": "1.2.3"}, 1)]


def test_what_is_rendered_can_be_read_by_prometheus(metrics: Metrics) -> None:
    use_everything(metrics)

    text, content_type = metrics.render()

    families = list(text_string_to_metric_families(text.decode()))
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    prefixes = ("controller_sharding_", "process_", "python_", "rest_client_", "workqueue_")
    assert all(family.name.startswith(prefixes) for family in families)
    assert not any("_created" in family.name for family in families)


def test_two_processes_of_a_test_do_not_share_series(metrics: Metrics) -> None:
    other = Metrics(CollectorRegistry(), version="1.2.3", shard_states=STATES)

    metrics.rings.calculated(RING)

    assert b"demo" not in other.render()[0]


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


def test_only_a_ring_that_cannot_be_read_is_shown_as_such(
    metrics: Metrics, registry: CollectorRegistry
) -> None:
    metrics.rings.set_unreadable(OTHER, unreadable=False)
    metrics.rings.set_unreadable(RING, unreadable=True)
    first = series(registry, "controllerring_unreadable")
    metrics.rings.remove_ring(RING)

    assert first == [({"controllerring": RING}, 1)]
    assert series(registry, "controllerring_unreadable") == []


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

"""What a page of metrics shows, and that nothing stays behind."""

from collections.abc import Sequence

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from sharder.core.names import RingName
from sharder.metrics.collectors import RING, Metrics
from sharder.metrics.registry import service_metrics

DEMO = RingName("demo")


@pytest.fixture
def metrics() -> Metrics:
    return service_metrics(CollectorRegistry(), version="1.2.3")


def use_everything(metrics: Metrics) -> None:
    """Use every metric once, those of rings for the ring `demo`."""
    for count in metrics.counts.values():
        count.add(*labels_of(count.labels))
    for time in metrics.times.values():
        time.observe(2.5, *labels_of(time.labels))
    for gauge in metrics.gauges.values():
        gauge.show(lambda: 3, *labels_of(gauge.labels))


def labels_of(names: Sequence[str]) -> list[str]:
    return [DEMO if name == RING else f"some {name}" for name in names]


def lines(metrics: Metrics) -> list[str]:
    page = metrics.render()[0].decode().splitlines()
    return [line for line in page if not line.startswith("#")]


def test_each_kind_of_metric_is_shown_as_prometheus_reads_it(metrics: Metrics) -> None:
    use_everything(metrics)
    metrics.counts["drains_total"].add(DEMO, "", "secrets")
    metrics.times["resync_duration_seconds"].observe(0.2, DEMO)

    page = [line.removeprefix("controller_sharding_") for line in lines(metrics)]

    assert {
        'drains_total{controllerring="demo",group="",resource="secrets"} 1.0',
        'resync_duration_seconds_bucket{controllerring="demo",le="0.5"} 1.0',
        'resync_duration_seconds_bucket{controllerring="demo",le="+Inf"} 2.0',
        'resync_duration_seconds_sum{controllerring="demo"} 2.7',
        'rest_client_requests_total{code="some code",method="some method"} 1.0',
        'watch_healthy{watch="some watch"} 3.0',
    } <= {*page}


def test_a_gauge_is_shown_while_its_block_lasts(metrics: Metrics) -> None:
    before = lines(metrics)

    with metrics.shown({("workqueue_depth", "resync"): 2.0, ("overdue_drains", DEMO, "", "x"): 1}):
        during = lines(metrics)

    assert len(during) == len(before) + 2
    assert len(lines(metrics)) == len(before)


def test_only_the_last_series_of_a_ring_are_shown(metrics: Metrics) -> None:
    shards = metrics.gauges["shard_objects"]
    shards.replace(DEMO, {("ns", "gone", DEMO): 1})
    shards.replace(DEMO, {("ns", "shard-a", DEMO): 2})

    assert [each.rpartition(" ")[2] for each in lines(metrics) if "shard_objects" in each] == [
        "2.0"
    ]


def test_a_removed_ring_leaves_no_series(metrics: Metrics) -> None:
    use_everything(metrics)
    assert metrics.render()[0].count(b'"demo"') > 20

    metrics.forget(DEMO)

    assert b"demo" not in metrics.render()[0]


def test_what_is_rendered_can_be_read_by_prometheus(metrics: Metrics) -> None:
    use_everything(metrics)

    text, content_type = metrics.render()

    families = list(text_string_to_metric_families(text.decode()))
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    prefixes = ("controller_sharding_", "process_", "python_", "rest_client_", "workqueue_")
    assert all(family.name.startswith(prefixes) for family in families)
    assert not any("_created" in family.name for family in families)

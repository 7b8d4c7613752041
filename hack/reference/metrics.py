"""Generates docs/metrics.md from the metrics that the sharder registers."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector
from typing_extensions import override

from sharder.core.leases.state import ShardState
from sharder.metrics.registry import PREFIX, Metrics

ROOT: Final = Path(__file__).parents[2]
DOCUMENT: Final = ROOT / "docs/metrics.md"
ADVICE: Final = Path(__file__).with_name("advice.yaml")
"""The texts of the column *Look for*, by the name of a metric without its prefix."""
OUTCOMES: Final = Path(__file__).with_name("outcomes.yaml")
"""The meanings of the values of the label `outcome`."""

HEAD: Final = """\
# Metrics

<!-- Written by `make reference` from the metrics in sharder/metrics, and from advice.yaml and \
outcomes.yaml in hack/reference: change these. -->

Look up a metric of the sharder.
[install.md](install.md#scrape-it) shows how to scrape it, and [alerts.md](alerts.md) has \
the alerts.

Names that are the sharder's own begin with `controller_sharding_`; the others are those of all \
controllers in Go and all programs in Python.
Every replica counts what it does itself: add counters up with `sum`, and take the `max` of gauges.
Objects are counted by the leader alone, so after a change of the leader its series are those of \
another `instance`.
No label contains an object's name.
These have the names and labels of timebertt/kubernetes-controller-sharding, without the prefix: \
`assignments_total`, `movements_total`, `drains_total`, `ring_calculations_total`, \
`controllerring_metadata_generation`, `controllerring_observed_generation`, \
`controllerring_status_shards`, `controllerring_status_available_shards`, `shard_info` and \
`shard_state`.

| Metric | Type | Labels | Meaning | Look for |
|---|---|---|---|---|
"""

TAIL: Final = """\

## Values of labels

`limit` is `maxMovesPerMinute`, `maxConcurrentDrains` or `handOver`: too many released objects of \
leading resources wait for their next owner.
`name` of `workqueue_*` is `controllerring`, `resync`, `rebalance`, `lease` or `handover`.

`outcome` is the result of a request to the webhook for objects; all but HTTP errors allow the \
request:

| Outcome | Of a request |
|---|---|
"""


class Series(NamedTuple):
    """The properties of a metric that has no values yet."""

    name: str
    type: str
    labels: tuple[str, ...]
    about: str


class _Registry(CollectorRegistry):
    """A registry that lists its collectors in the order of their registration."""

    def __init__(self) -> None:
        super().__init__()
        self.collectors = list[Collector]()

    @override
    def register(self, collector: Collector) -> None:
        self.collectors.append(collector)
        super().register(collector)


def series() -> list[Series]:
    """Return all metrics of the sharder, in the order of their registration."""
    registry = _Registry()
    Metrics(registry, version="", shard_states=list(ShardState))
    return [each for collector in registry.collectors for each in _families(collector)]


def document(advice: Mapping[str, str], outcomes: Mapping[str, str]) -> str:
    """Return the page, with the texts of the files ADVICE and OUTCOMES."""
    rows = "\n".join(_row(each, advice) for each in sorted(series()))
    results = "\n".join(f"| `{name}` | {about} |" for name, about in outcomes.items())
    return f"{HEAD}{rows}\n{TAIL}{results}\n"


def _families(collector: Collector) -> Iterator[Series]:
    for family in collector.collect():
        suffix = "_total" if family.type == "counter" else ""
        labels = _labels(family)
        yield Series(f"{family.name}{suffix}", family.type, labels, family.documentation)


def _labels(family: Metric) -> tuple[str, ...]:
    """Return the label names of a metric; the client library has no public attribute for them."""
    if isinstance(family, GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily):
        return tuple(family._labelnames)  # noqa: SLF001
    return tuple(dict.fromkeys(label for each in family.samples for label in each.labels))


def _row(each: Series, known: Mapping[str, str]) -> str:
    labels = ", ".join(f"`{label}`" for label in each.labels)
    advice = known.get(each.name.removeprefix(PREFIX), "")
    return f"| `{each.name}` | {each.type} | {labels} | {each.about} | {advice} |"

"""The metrics of a process: counters, histograms and gauges that prometheus_client lacks.

Counters and histograms are updated at every admission, and the library's take ten times as long.
Gauges exist only while they are shown, and are replaced ring by ring.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector
from typing_extensions import override

from sharder.core.names import RingName

RING: Final = "controllerring"
"""The label that has the ring; the first one of counters and histograms of rings."""

Reading: TypeAlias = float | Callable[[], float]
Texts: TypeAlias = tuple[str, ...]
Labels: TypeAlias = tuple[str, ...]
S = TypeVar("S")


class _Family(Collector, Generic[S]):
    """A metric with labels."""

    def __init__(self, name: str, about: str, labels: Sequence[str]) -> None:
        self._name, self._about, self.labels = name, about, labels
        self._series: dict[Labels, S] = {}

    def remove(self, ring: RingName) -> None:
        """Remove the series of a ring; no error if there are none."""
        for labels in [labels for labels in self._series if labels[0] == ring]:
            del self._series[labels]


class Counts(_Family[int]):
    """A counter."""

    def add(self, *labels: str) -> None:
        """Increment the series with these label values, in order."""
        self._series[labels] = self._series.get(labels, 0) + 1

    @override
    def collect(self) -> Iterable[Metric]:
        """Return the metrics of a scrape."""
        family = CounterMetricFamily(self._name, self._about, labels=self.labels)
        for labels, count in list(self._series.items()):
            family.add_metric(labels, count)
        yield family


class Times(_Family[list[float]]):
    """A histogram of durations; the first label, if any, is the ring or the queue."""

    def __init__(
        self, name: str, about: str, labels: Sequence[str], buckets: Sequence[float]
    ) -> None:
        super().__init__(name, about, labels)
        self._buckets = buckets

    def observe(self, seconds: float, *labels: str) -> None:
        """Observe a duration under these label values."""
        series = self._series.get(labels)
        if series is None:  # the counts of the buckets, and the sum
            series = self._series[labels] = [0] * (len(self._buckets) + 2)
        series[bisect_left(self._buckets, seconds)] += 1
        series[-1] += seconds

    @override
    def collect(self) -> Iterable[Metric]:
        """Return the metrics of a scrape."""
        family = HistogramMetricFamily(self._name, self._about, labels=self.labels)
        bounds = [*(str(float(bound)) for bound in self._buckets), "+Inf"]
        for labels, (*counts, total) in list(self._series.items()):
            cumulated = list(zip(bounds, accumulate(counts), strict=True))
            family.add_metric(labels, cumulated, total)
        yield family


class Readings(_Family[Reading]):
    """A gauge whose series exist only while they are shown."""

    def __init__(self, name: str, about: str, labels: Sequence[str]) -> None:
        super().__init__(name, about, labels)
        self._ring_at = labels.index(RING) if RING in labels else None
        self._shown = defaultdict[str, dict[Labels, Reading]](dict)
        """By ring, so that a ring's series are removed without a look at all others."""

    def show(self, reading: Reading, *labels: str) -> None:
        """Show a value, or what a function returns at each scrape; another thread can call it."""
        self._shown[self._ring_of(labels)][labels] = reading

    def hide(self, *labels: str) -> None:
        """Hide the series; no error if it is not shown."""
        self._shown[self._ring_of(labels)].pop(labels, None)

    def replace(self, ring: RingName, readings: Mapping[Labels, Reading]) -> None:
        """Show exactly these series of the ring."""
        self._shown[ring] = dict(readings)

    @override
    def remove(self, ring: RingName) -> None:
        self._shown.pop(ring, None)

    @override
    def collect(self) -> Iterable[Metric]:
        """Return the metrics of a scrape."""
        family = GaugeMetricFamily(self._name, self._about, labels=self.labels)
        for readings in list(self._shown.values()):
            for labels, reading in list(readings.items()):
                family.add_metric(labels, reading() if callable(reading) else reading)
        yield family

    def _ring_of(self, labels: Labels) -> str:
        return "" if self._ring_at is None else labels[self._ring_at]


class Table(NamedTuple):
    """Metrics that are registered together; the texts of each are its help and its labels."""

    counts: Mapping[str, Texts]
    times: Mapping[str, tuple[Sequence[float], Texts]]
    """After the buckets of each, in seconds."""
    gauges: Mapping[str, Texts]
    prefix: str = ""
    """What the names begin with on the page."""


class Metrics:
    """The metrics of a process by their names, on the caller's registry.

    Labels are rings, resources, shards and fixed words; never an object's name.
    """

    def __init__(self, registry: CollectorRegistry, *tables: Table) -> None:
        """Register all metrics of the tables."""
        self.counts = dict[str, Counts]()
        self.times = dict[str, Times]()
        self.gauges = dict[str, Readings]()
        self._registry = registry
        for each in tables:
            for name, (about, *labels) in each.counts.items():
                self.counts[name] = Counts(each.prefix + name, about, labels)
            for name, (buckets, (about, *labels)) in each.times.items():
                self.times[name] = Times(each.prefix + name, about, labels, buckets)
            for name, (about, *labels) in each.gauges.items():
                self.gauges[name] = Readings(each.prefix + name, about, labels)
        self._families: list[Counts | Times | Readings] = [*self.counts.values()]
        self._families += [*self.times.values(), *self.gauges.values()]
        for made in self._families:
            registry.register(made)

    @contextmanager
    def shown(self, readings: Mapping[Labels, Reading]) -> Iterator[None]:
        """Show gauges, each by its name and labels, while the block lasts."""
        for (name, *labels), reading in readings.items():
            self.gauges[name].show(reading, *labels)
        try:
            yield
        finally:
            for name, *labels in readings:
                self.gauges[name].hide(*labels)

    def forget(self, ring: RingName) -> None:
        """Remove all series of a ring and its shards; no error if there are none."""
        for each in self._families:
            if RING in each.labels:
                each.remove(ring)

    def render(self) -> tuple[bytes, str]:
        """Return all metrics of the registry in Prometheus' text format, and its content type.

        Can be called from another thread.
        """
        return generate_latest(self._registry), CONTENT_TYPE_PLAIN_0_0_4

"""Collectors that prometheus_client lacks.

Counters and histograms are updated at every admission, and the library's take ten times as long.
Gauges exist only while they are shown, and are replaced ring by ring.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, Metric
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
Table: TypeAlias = Mapping[str, Texts]
C = TypeVar("C", "Counts", "Times", "Readings")


class Counts(Collector):
    """A counter with labels."""

    def __init__(self, name: str, about: str, labels: Sequence[str]) -> None:
        self._name, self._about, self._labels = name, about, labels
        self._counts: dict[tuple[str, ...], int] = {}

    def add(self, *labels: str) -> None:
        """Increment the series with these label values, in order."""
        self._counts[labels] = self._counts.get(labels, 0) + 1

    def remove(self, ring: RingName) -> None:
        """Remove the series of a ring; no error if there are none."""
        self._counts = {labels: n for labels, n in self._counts.items() if labels[0] != ring}

    @override
    def collect(self) -> Iterable[Metric]:
        """Return the metrics of a scrape."""
        family = CounterMetricFamily(self._name, self._about, labels=self._labels)
        for labels, count in list(self._counts.items()):
            family.add_metric(labels, count)
        yield family


class Times(Collector):
    """A histogram of durations; the first label, if any, is the ring or the queue."""

    def __init__(
        self, name: str, about: str, buckets: Sequence[float], labels: Sequence[str] = ()
    ) -> None:
        self._name, self._about, self._labels = name, about, labels
        self._buckets = buckets
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, seconds: float, *labels: str) -> None:
        """Observe a duration under these label values."""
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * (len(self._buckets) + 1)
        counts[bisect_left(self._buckets, seconds)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + seconds

    def remove(self, ring: RingName) -> None:
        """Remove the series of a ring; no error if there are none."""
        for labels in [labels for labels in self._counts if labels[0] == ring]:
            del self._counts[labels], self._sums[labels]

    @override
    def collect(self) -> Iterable[Metric]:
        """Return the metrics of a scrape."""
        family = HistogramMetricFamily(self._name, self._about, labels=self._labels)
        bounds = [*(str(float(bound)) for bound in self._buckets), "+Inf"]
        for labels, counts in list(self._counts.items()):
            cumulated = list(zip(bounds, accumulate(counts), strict=True))
            family.add_metric(labels, cumulated, self._sums.get(labels, 0.0))
        yield family


class Readings(Collector):
    """A gauge whose series exist only while they are shown."""

    def __init__(self, name: str, about: str, labels: Sequence[str]) -> None:
        self._name, self._about, self._labels = name, about, labels
        self._ring_at = labels.index(RING) if RING in labels else None
        self._shown = defaultdict[str, dict[tuple[str, ...], Reading]](dict)
        """By ring, so that a ring's series are removed without a look at all others."""

    def show(self, reading: Reading, *labels: str) -> None:
        """Show a value, or what a function returns at each scrape; another thread can call it."""
        self._shown[self._ring_of(labels)][labels] = reading

    def hide(self, *labels: str) -> None:
        """Hide the series; no error if it is not shown."""
        self._shown[self._ring_of(labels)].pop(labels, None)

    def replace(self, ring: RingName, readings: Mapping[tuple[str, ...], Reading]) -> None:
        """Show exactly these series of the ring."""
        self._shown[ring] = dict(readings)

    def remove(self, ring: RingName) -> None:
        """Remove the series of a ring; no error if there are none."""
        self._shown.pop(ring, None)

    @override
    def collect(self) -> Iterable[Metric]:
        """Return the metrics of a scrape."""
        family = GaugeMetricFamily(self._name, self._about, labels=self._labels)
        for readings in list(self._shown.values()):
            for labels, reading in list(readings.items()):
                family.add_metric(labels, reading() if callable(reading) else reading)
        yield family

    def _ring_of(self, labels: tuple[str, ...]) -> str:
        return "" if self._ring_at is None else labels[self._ring_at]


class Families:
    """Registers collectors under a prefix, and removes the series of a ring from all of them.

    In the tables, the first text of a metric is its help, and the others are its labels.
    """

    def __init__(self, registry: CollectorRegistry, prefix: str = "") -> None:
        self._registry = registry
        self._prefix = prefix
        self._by_ring: list[Counts | Times | Readings] = []

    def counts(self, table: Table) -> dict[str, Counts]:
        """Register counters."""
        return {
            name: self._register(Counts(self._prefix + name, about, labels), labels)
            for name, (about, *labels) in table.items()
        }

    def times(self, table: Mapping[str, tuple[Sequence[float], Texts]]) -> dict[str, Times]:
        """Register histograms of seconds, with their buckets."""
        return {
            name: self._register(Times(self._prefix + name, about, buckets, labels), labels)
            for name, (buckets, (about, *labels)) in table.items()
        }

    def gauges(self, table: Table) -> dict[str, Readings]:
        """Register gauges."""
        return {
            name: self._register(Readings(self._prefix + name, about, labels), labels)
            for name, (about, *labels) in table.items()
        }

    def forget(self, ring: RingName) -> None:
        """Remove all series of a ring; no error if there are none."""
        for each in self._by_ring:
            each.remove(ring)

    def _register(self, collector: C, labels: Sequence[str]) -> C:
        self._registry.register(collector)
        if RING in labels:
            self._by_ring.append(collector)
        return collector

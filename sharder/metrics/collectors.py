"""Collectors that prometheus_client lacks.

Counters and histograms are updated at every admission, and the library's take ten times as long.
The gauges exist only while they are shown.  Loads are replaced ring by ring.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from prometheus_client import Metric
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector
from typing_extensions import override

from sharder.core.names import RingName
from sharder.core.status.stats import ShardLoad


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
    """A gauge whose series are read at each scrape, and exist only while they are shown."""

    def __init__(self, name: str, about: str, labels: Sequence[str]) -> None:
        self._name, self._about, self._labels = name, about, labels
        self._read: dict[tuple[str, ...], Callable[[], float]] = {}

    def show(self, read: Callable[[], float], *labels: str) -> None:
        """Show what `read` returns under these label values; another thread can call it."""
        self._read[labels] = read

    def hide(self, *labels: str) -> None:
        """Hide the series; no error if it is not shown."""
        self._read.pop(labels, None)

    @override
    def collect(self) -> Iterable[Metric]:
        """Return the metrics of a scrape."""
        family = GaugeMetricFamily(self._name, self._about, labels=self._labels)
        for labels, read in list(self._read.items()):
            family.add_metric(labels, read())
        yield family


class Loads(Collector):
    """The objects of each ring and its shards, and the shards' capacities."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._shown: dict[RingName, tuple[int, tuple[ShardLoad, ...]]] = {}

    def show(self, ring: RingName, objects: int, shards: Iterable[ShardLoad]) -> None:
        """Show the loads of a ring instead of its previous ones."""
        self._shown[ring] = objects, tuple(shards)

    def remove(self, ring: RingName) -> None:
        """Remove the series of a ring; no error if there are none."""
        self._shown.pop(ring, None)

    @override
    def collect(self) -> Iterable[Metric]:
        """Return the metrics of a scrape."""
        shard_labels = ("namespace", "shard", "controllerring")
        of_rings = self._family(
            "controllerring_objects",
            "Main objects in the ring's scope, assigned or not; shown by the leader",
            ("controllerring",),
        )
        of_shards = self._family(
            "shard_objects",
            "Main objects that a shard owns, draining ones included; shown by the leader",
            shard_labels,
        )
        ceilings = self._family(
            "shard_capacity",
            "Main objects that a shard can own; absent without a limit; shown by the leader",
            shard_labels,
        )
        for ring, (objects, shards) in list(self._shown.items()):
            of_rings.add_metric((ring,), objects)
            for load in shards:
                labels = load.namespace, load.shard, ring
                of_shards.add_metric(labels, load.objects)
                if load.ceiling is not None:
                    ceilings.add_metric(labels, load.ceiling)
        return of_rings, of_shards, ceilings

    def _family(self, name: str, about: str, labels: Sequence[str]) -> GaugeMetricFamily:
        return GaugeMetricFamily(self._prefix + name, about, labels=labels)

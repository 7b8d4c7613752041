"""Metrics of the transitions of rings, and of the times that their objects had no owner."""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector
from typing_extensions import override

from sharder.core.names import RingName
from sharder.core.status.transitions import Transition
from sharder.metrics.collectors import Counts, Times

HANDOVER_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 45, 60, 120, 300)
"""Seconds: from one watch event to several Lease durations."""

_RING: Final = "controllerring"

STATUSES: Final = ("True", "False", "Unknown")


class Series(Protocol):
    """Series that can be removed by ring."""

    def remove(self, ring: RingName) -> None:
        """Remove the series of a ring; no error if there are none."""
        ...


class Conditions(Collector):
    """One series for each condition of a ring and each possible status, 1 for the current one."""

    def __init__(self, prefix: str) -> None:
        self._name = prefix + "controllerring_condition"
        self._shown: dict[RingName, Mapping[str, str]] = {}

    def show(self, ring: RingName, conditions: Mapping[str, str]) -> None:
        """Show exactly these conditions of the ring, with their statuses."""
        self._shown[ring] = dict(conditions)

    def remove(self, ring: RingName) -> None:
        """Remove the series of a ring; no error if there are none."""
        self._shown.pop(ring, None)

    @override
    def collect(self) -> Iterable[Metric]:
        """Return the metrics of a scrape."""
        family = GaugeMetricFamily(
            self._name,
            "1 for the present status of the ring's condition, else 0; shown by the leader",
            labels=(_RING, "condition", "status"),
        )
        for ring, conditions in list(self._shown.items()):
            for name, present in conditions.items():
                for status in STATUSES:
                    family.add_metric((ring, name, status), float(status == present))
        yield family


class TransitionMetrics:
    """The metrics of transitions, and of the times that objects had no owner."""

    def __init__(self, registry: CollectorRegistry, prefix: str) -> None:
        self._handovers = Times(
            prefix + "handover_seconds",
            "Time from when an object had no live owner until its new owner was written: "
            "for drained from the acknowledgement, for lost from the last renewal or the release "
            "of the shard's Lease",
            HANDOVER_BUCKETS,
            (_RING, "reason"),
        )
        self._transitions = Counts(
            prefix + "transitions_total",
            "Transitions of the ring that the leader reported, by the reason of their Events",
            (_RING, "reason"),
        )
        self._conditions = Conditions(prefix)
        collectors = (self._handovers, self._transitions, self._conditions)
        for collector in collectors:
            registry.register(collector)
        self.series: tuple[Series, ...] = collectors

    def handed_over(self, ring: RingName, reason: str, seconds: float) -> None:
        """Record how long an object had no live owner; the reason is a fixed word."""
        self._handovers.observe(seconds, ring, reason)

    def happened(self, ring: RingName, transition: Transition) -> None:
        """Count a transition."""
        self._transitions.add(ring, transition.kind)

    def show_conditions(self, ring: RingName, conditions: Mapping[str, str]) -> None:
        """Show the conditions of the ring with their statuses."""
        self._conditions.show(ring, conditions)

    def hide_conditions(self, ring: RingName) -> None:
        """Hide the conditions of the ring; no error if they are not shown."""
        self._conditions.remove(ring)

"""Counts of reconciles, to name the object of a shard that is never done."""

from collections import Counter

from typing_extensions import override

from sharder.core.names import GroupResource, ObjectRef
from sharder.runtime.clock import Clock
from sharder.sdk.observability.exposition import NoShardMetrics


class ReconcileCounts(NoShardMetrics):
    """The reconciles of each object at the present time: a count ends when the time moves."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._time = clock.monotonic()
        self._counts = Counter[ObjectRef]()

    @override
    def began(self, resource: GroupResource, ref: ObjectRef) -> None:
        """Count a reconcile."""
        if self._time != self._clock.monotonic():
            self._time = self._clock.monotonic()
            self._counts.clear()
        self._counts[ref] += 1

    def most(self) -> tuple[ObjectRef, int] | None:
        """Return the object with the most reconciles, and their number; None without any."""
        return max(self._counts.items(), key=lambda item: item[1], default=None)

"""Measure how long objects have no live owner.

An object has no live owner from the acknowledgement of its drain, or from the end of its shard,
until its new owner is written.  Only a process that saw the beginning measures the time.
"""

from typing import Final

from sharder.core.names import RingName, ShardName
from sharder.metrics.registry import Metrics
from sharder.runtime.clock import Clock

MAX_ENDED: Final = 2_048
"""Limit on the remembered ended shards: any client can create Leases and let them expire."""

ENDED_SECONDS: Final = 600.0
"""How long an end is remembered: an object that is on the shard later was put there since."""

DRAINED, LOST = "drained", "lost"
"""Why an object had no owner; values of the label `reason`."""


class HandoverTimes:
    """The ended shards of all rings."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._ended: dict[tuple[RingName, ShardName], float] = {}
        """When each shard that ended was last known to work (monotonic)."""

    def ended(self, ring: RingName, shard: ShardName, seconds: float) -> None:
        """Record that a shard ended, `seconds` after it was last known to work."""
        self._ended[ring, shard] = self._clock.monotonic() - seconds
        while len(self._ended) > MAX_ENDED:
            del self._ended[next(iter(self._ended))]

    def forget(self, ring: RingName, shard: ShardName) -> None:
        """Forget the end of a shard that works again."""
        self._ended.pop((ring, shard), None)

    def assigned(self, ring: RingName, last: ShardName | None, since: float | None) -> None:
        """Record that an object was assigned.

        `last` is the shard that had it, None if that is unknown, and `since` when it was first
        seen without owner, None if it had one.
        """
        now = self._clock.monotonic()
        ended = None if last is None else self._ended.get((ring, last))
        if ended is not None and now - ended < ENDED_SECONDS:
            self._metrics.handed_over(ring, LOST, now - ended)
        elif last is not None and since is not None:
            self._metrics.handed_over(ring, DRAINED, now - since)

"""How many drains a ring can begin, and how many drains of a shard can be open, at a time.

Only drains are limited.  Objects of a shard that is gone, and controlled objects that follow their
controller, move without a budget (docs/protocol.md, "Budgets").
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from math import inf
from typing import Final, NamedTuple

from sharder.core.api.ring import MovementSpec
from sharder.core.errors import ApiError, Unavailable
from sharder.core.names import ShardName

MINUTE: Final = 60.0
"""Seconds for which moves are counted, and after which an open drain no longer counts."""

SOON: Final = 1.0
"""Seconds until the next attempt, if it is not known when there will be room."""

MAX_LEAVERS: Final = 400
"""Maximum objects of a ring's leading resources that move at a time.  A replica hands over this
many in a second or two, so if the leader fails, no object waits longer."""


class Limit(StrEnum):
    """What limits a drain: a field of `spec.movement`, or the objects that wait for hand-over."""

    MOVES_PER_MINUTE = "maxMovesPerMinute"
    CONCURRENT_DRAINS = "maxConcurrentDrains"
    HAND_OVER = "handOver"


class Refusal(NamedTuple):
    """Why a drain cannot begin."""

    limit: Limit
    seconds: float
    """Seconds until there might be room."""
    why: str
    """A sentence for people."""


class Budget:
    """The drains of one ring: begun in the last minute, open, and handed over.

    A drain that is being written always counts, and its minute begins when the write has ended, so
    the count is never too low.  If the leader fails, all released objects that lead others can be
    unassigned at the same time, so there is a limit for these too.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` returns monotonic seconds."""
        self._now = now
        self._begun: dict[Hashable, float] = {}
        """When each drain was written: here and below infinite while it is being written, and not
        more than a minute ago."""
        self._open = defaultdict[ShardName, dict[Hashable, float]](dict)
        """When the drains were requested that each shard has still to acknowledge."""
        self._leaving: dict[Hashable, float] = {}
        """When the objects that lead others, and have not arrived, were drained."""

    def refusal(
        self, shard: ShardName, limits: MovementSpec, *, leads: bool = False
    ) -> Refusal | None:
        """Return why no other object can drain from `shard`, None if one can.

        `leads` is whether that object leads others.
        """
        many = limits.max_moves_per_minute
        if 0 < many <= self._recent(self._begun):
            ends = sorted(self._begun.values())[-many] + MINUTE
            seconds = SOON if ends == inf else ends - self._now()
            why = f"the ring begins at most {many} moves per minute, the next in {seconds:.0f}s"
            return Refusal(Limit.MOVES_PER_MINUTE, seconds, why)
        many = limits.max_concurrent_drains
        if 0 < many <= self.open_on(shard):
            why = f"at most {many} objects drain from {shard} at a time"
            return Refusal(Limit.CONCURRENT_DRAINS, SOON, why)
        if leads and self._recent(self._leaving) >= MAX_LEAVERS:
            why = f"at most {MAX_LEAVERS} objects are handed over at a time"
            return Refusal(Limit.HAND_OVER, SOON, why)
        return None

    def open_on(self, shard: ShardName) -> int:
        """Return how many objects drain from a shard for less than a minute each."""
        return self._recent(self._open.get(shard, {}))

    def is_handing_over(self) -> bool:
        """Return whether objects that lead others have left a shard within the last minute."""
        return self._recent(self._leaving) > 0

    @contextmanager
    def writing(self, key: Hashable, shard: ShardName, *, leads: bool = False) -> Iterator[None]:
        """Account for a drain that the body writes.

        A failed write returns its place, unless it might have succeeded, because its answer was
        lost or not awaited.
        """
        self.gone(key)
        accounts: list[tuple[dict[Hashable, float], Hashable]] = [
            (self._begun, object()),
            (self._open[shard], key),
            *([(self._leaving, key)] if leads else []),
        ]
        for times, of in accounts:
            self._recent(times)
            times[of] = inf
        is_written = True
        try:
            yield
        except ApiError as error:
            is_written = isinstance(error, Unavailable)
            raise
        finally:
            for times, of in accounts:
                # The drain can be over before its answer is here.
                if times.pop(of, None) is not None and is_written:
                    times[of] = self._now()

    def opened(self, key: Hashable, shard: ShardName, since: float) -> None:
        """Record that an object drains from a shard; idempotent."""
        if key not in self._open[shard]:
            self.closed(key)
            if since + MINUTE > self._now():
                self._open[shard][key] = since

    def closed(self, key: Hashable) -> None:
        """Record that a drain was acknowledged or withdrawn; idempotent."""
        for shard, times in list(self._open.items()):
            times.pop(key, None)
            if not times:
                del self._open[shard]

    def arrived(self, key: Hashable) -> None:
        """Record that the object has another owner, stays, or is gone; idempotent."""
        self._leaving.pop(key, None)

    def gone(self, key: Hashable) -> None:
        """Record that an object is deleted, or is no longer drained; idempotent."""
        self.closed(key)
        self.arrived(key)

    def _recent(self, times: dict[Hashable, float]) -> int:
        """Forget what is older than a minute, the oldest first; return how many are left."""
        while times and next(iter(times.values())) + MINUTE <= self._now():
            del times[next(iter(times))]
        return len(times)

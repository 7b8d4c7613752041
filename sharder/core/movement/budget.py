"""How many drains a ring can begin, and how many drains of a shard can be open, at a time.

Only drains are limited.  Objects of a shard that is gone, and controlled objects that follow their
controller, move without a budget (docs/protocol.md, "Budgets").  There is no clock: each call
passes the time in monotonic seconds.
"""

from collections import Counter, deque
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, NamedTuple, TypeVar

from sharder.core.api.ring import MovementSpec
from sharder.core.names import ShardName

MINUTE: Final = 60.0
"""Seconds for which moves are counted, and after which an open drain no longer counts."""

SOON: Final = 1.0
"""Seconds until the next attempt, if it is not known when there will be room."""

MAX_LEAVERS: Final = 400
"""Maximum objects of a ring's leading resources that move at a time.  A replica hands over this
many in a second or two, so if the leader fails, no object waits longer."""

K = TypeVar("K", bound=Hashable)


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


class Lately:
    """The times at which something happened in the last minute."""

    def __init__(self) -> None:
        self._times = deque[float]()

    def add(self, now: float) -> None:
        """Record that it happened."""
        self._forget(now)
        self._times.append(now)

    def wait(self, limit: int, now: float, *, under_way: int = 0) -> float:
        """Return the seconds until it can happen once more, 0 if it can happen now.

        It can happen at most `limit` times in any minute.  `under_way` is how often it is about to
        happen.
        """
        self._forget(now)
        last = len(self._times) + under_way - limit
        if last < 0:
            return 0.0
        return self._times[last] + MINUTE - now if last < len(self._times) else SOON

    def _forget(self, now: float) -> None:
        while self._times and self._times[0] + MINUTE <= now:
            self._times.popleft()


class _Open(NamedTuple):
    shard: ShardName
    since: float


class Leavers(Generic[K]):
    """Draining objects of leading resources, until each has another owner or stays.

    If the leader fails, all of them can be unassigned at the same time, so there is a limit.  A
    drain that takes longer than a minute no longer counts.
    """

    def __init__(self) -> None:
        self._begun: dict[K, float] = {}
        """When each drain began, the oldest first."""

    def begin(self, drain: K, now: float) -> None:
        """Record that an object drains; idempotent."""
        self._forget(now)
        self._begun.setdefault(drain, now)

    def end(self, drain: K) -> None:
        """Record that the object has another owner, stays, or is gone; idempotent."""
        self._begun.pop(drain, None)

    def refusal(self, now: float) -> Refusal | None:
        """Return why no other drain can begin, None if one can."""
        self._forget(now)
        if len(self._begun) < MAX_LEAVERS:
            return None
        why = f"at most {MAX_LEAVERS} objects are handed over at a time"
        return Refusal(Limit.HAND_OVER, SOON, why)

    def any(self, now: float) -> bool:
        """Return whether any object drains for less than a minute and has no new owner yet."""
        self._forget(now)
        return bool(self._begun)

    def _forget(self, now: float) -> None:
        while self._begun:
            drain, since = next(iter(self._begun.items()))
            if since + MINUTE > now:
                break
            del self._begun[drain]


@dataclass(slots=True)
class _Flight:
    """A drain that is being written."""

    shard: ShardName
    seen: bool = False
    """Whether the drain was seen on the object before the answer to the write arrived."""


class Budget(Generic[K]):
    """The drains of one ring: being written, begun in the last minute, and open.

    `K` identifies an object.  A drain that is being written always counts, and its minute begins
    when the write has ended, so the count is never too low.
    """

    def __init__(self) -> None:
        self._flights: dict[K, _Flight] = {}
        self._begun = Lately()
        self._open: dict[K, _Open] = {}
        """Open drains that began less than a minute ago, the oldest first."""
        self._counts = Counter[ShardName]()

    def refusal(self, shard: ShardName, limits: MovementSpec, now: float) -> Refusal | None:
        """Return why no other object can drain from `shard`, None if one can."""
        many = limits.max_moves_per_minute
        seconds = self._begun.wait(many, now, under_way=len(self._flights)) if many > 0 else 0.0
        if seconds > 0:
            why = f"the ring begins at most {many} moves per minute, the next in {seconds:.0f}s"
            return Refusal(Limit.MOVES_PER_MINUTE, seconds, why)
        many = limits.max_concurrent_drains
        if 0 < many <= self.open_on(shard, now):
            why = f"at most {many} objects drain from {shard} at a time"
            return Refusal(Limit.CONCURRENT_DRAINS, SOON, why)
        return None

    def open_on(self, shard: ShardName, now: float) -> int:
        """Return how many objects drain from a shard for less than a minute each."""
        self._forget(now)
        flying = (drain for drain, flight in self._flights.items() if flight.shard == shard)
        return self._counts[shard] + sum(drain not in self._open for drain in flying)

    def begin(self, drain: K, shard: ShardName) -> None:
        """Reserve room for a drain that is about to be written."""
        self._flights[drain] = _Flight(shard)

    def written(self, drain: K, now: float) -> None:
        """Record that a drain was written, or might have been because the answer was lost."""
        flight = self._flights.pop(drain)
        self._begun.add(now)
        # If the drain was already seen on the object, it might have ended by now.
        if not flight.seen:
            self.opened(drain, flight.shard, now, now)

    def give_back(self, drain: K) -> None:
        """Record that a drain was not written."""
        del self._flights[drain]

    def opened(self, drain: K, shard: ShardName, since: float, now: float) -> None:
        """Record that an object drains from a shard; idempotent."""
        self._forget(now)
        flight, known = self._flights.get(drain), self._open.get(drain)
        if flight is not None:
            flight.seen = True
        if known is not None and known.shard == shard:
            return
        self.closed(drain)
        if since + MINUTE > now:
            self._open[drain] = _Open(shard, since)
            self._counts[shard] += 1

    def closed(self, drain: K) -> None:
        """Record that a drain was acknowledged or withdrawn; idempotent."""
        known = self._open.pop(drain, None)
        if known is not None:
            self._counts[known.shard] -= 1
            if not self._counts[known.shard]:
                del self._counts[known.shard]

    def _forget(self, now: float) -> None:
        while self._open:
            drain = next(iter(self._open))
            if self._open[drain].since + MINUTE > now:
                break
            self.closed(drain)

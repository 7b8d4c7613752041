"""How many drains a ring can begin, and how many drains of a shard can be open, at a time.

Only drains are limited.  Objects of a shard that is gone, and controlled objects that follow their
controller, move without a budget (docs/protocol.md, "Budgets").
"""

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final, Generic, NamedTuple, TypeVar

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


class _Drain(NamedTuple):
    """A drain that was requested in the last minute, or is being written."""

    shard: ShardName
    since: float
    leads: bool = False
    """Whether the object leads others: it counts until it has arrived on another shard."""
    is_writing: bool = False
    is_released: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the shard has still to acknowledge it, as far as we know."""
        return self.is_writing or not self.is_released


class Budget(Generic[K]):
    """The drains of one ring: being written, begun in the last minute, open, and handed over.

    `K` identifies an object.  A drain that is being written always counts, and its minute begins
    when the write has ended, so the count is never too low.  If the leader fails, all released
    objects that lead others can be unassigned at the same time, so there is a limit for these too.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` returns monotonic seconds."""
        self._now = now
        self._drains: dict[K, _Drain] = {}
        """The oldest first."""
        self._begun = deque[float]()
        """When drains were written in the last minute."""
        self._open = Counter[ShardName]()
        self._writing = self._leading = 0

    def refusal(
        self, shard: ShardName, limits: MovementSpec, *, leads: bool = False
    ) -> Refusal | None:
        """Return why no other object can drain from `shard`, None if one can.

        `leads` is whether that object leads others.
        """
        self._forget()
        many = limits.max_moves_per_minute
        if 0 < many <= len(self._begun) + self._writing:
            last = len(self._begun) + self._writing - many
            is_known = last < len(self._begun)
            seconds = self._begun[last] + MINUTE - self._now() if is_known else SOON
            why = f"the ring begins at most {many} moves per minute, the next in {seconds:.0f}s"
            return Refusal(Limit.MOVES_PER_MINUTE, seconds, why)
        many = limits.max_concurrent_drains
        if 0 < many <= self.open_on(shard):
            why = f"at most {many} objects drain from {shard} at a time"
            return Refusal(Limit.CONCURRENT_DRAINS, SOON, why)
        if leads and self._leading >= MAX_LEAVERS:
            why = f"at most {MAX_LEAVERS} objects are handed over at a time"
            return Refusal(Limit.HAND_OVER, SOON, why)
        return None

    def open_on(self, shard: ShardName) -> int:
        """Return how many objects drain from a shard for less than a minute each."""
        self._forget()
        return self._open[shard]

    def is_handing_over(self) -> bool:
        """Return whether objects that lead others have left a shard within the last minute."""
        self._forget()
        return self._leading > 0

    @contextmanager
    def writing(self, key: K, shard: ShardName, *, leads: bool = False) -> Iterator[None]:
        """Account for a drain that the body writes.

        A failed write returns its place, unless it might have succeeded, because its answer was
        lost or not awaited.
        """
        self._set(key, _Drain(shard, self._now(), leads, is_writing=True))
        is_written = True
        try:
            yield
        except ApiError as error:
            is_written = isinstance(error, Unavailable)
            raise
        finally:
            drain = self._drains[key]._replace(is_writing=False, since=self._now())
            if is_written:
                self._begun.append(drain.since)
            self._set(key, drain if is_written and (drain.leads or drain.is_open) else None)

    def opened(self, key: K, shard: ShardName, since: float) -> None:
        """Record that an object drains from a shard; idempotent."""
        self._forget()
        known = self._drains.get(key)
        if known is not None and known.is_writing:
            self._set(key, known._replace(shard=shard))
        elif known is not None and known.shard == shard and known.is_open:
            return
        elif since + MINUTE > self._now():
            leads = known is not None and known.leads
            self._set(key, _Drain(shard, since, leads))

    def closed(self, key: K) -> None:
        """Record that a drain was acknowledged or withdrawn; idempotent."""
        drain = self._drains.get(key)
        if drain is not None:
            is_kept = drain.leads or drain.is_writing
            self._set(key, drain._replace(is_released=True) if is_kept else None)

    def arrived(self, key: K) -> None:
        """Record that the object has another owner, stays, or is gone; idempotent."""
        drain = self._drains.get(key)
        if drain is not None and drain.leads:
            self._set(key, drain._replace(leads=False) if drain.is_open else None)

    def gone(self, key: K) -> None:
        """Record that an object is deleted, or is no longer drained; idempotent."""
        self.closed(key)
        self.arrived(key)

    def _forget(self) -> None:
        while self._begun and self._begun[0] + MINUTE <= self._now():
            self._begun.popleft()
        while self._drains:
            key, drain = next(iter(self._drains.items()))
            if drain.is_writing or drain.since + MINUTE > self._now():
                break
            self._set(key, None)

    def _set(self, key: K, drain: _Drain | None) -> None:
        """Replace a drain, and count it."""
        before = self._drains.pop(key, None)
        for each, one in ((before, -1), (drain, 1)):
            if each is not None:
                self._writing += one * each.is_writing
                self._leading += one * each.leads
                self._open[each.shard] += one * each.is_open
                if not self._open[each.shard]:
                    del self._open[each.shard]
        if drain is not None:
            self._drains[key] = drain

"""The exceptions of one resource of a ring: objects without owner, or being drained.

What is remembered is bounded for each ring, whatever happens in the cluster: the resync looks
after all else (docs/protocol.md, "Exceptions").
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol

from sharder.controllers.scope import ListRequest
from sharder.core.names import ObjectRef, ShardName
from sharder.runtime.clock import Clock

MAX_REMEMBERED = 10_000
"""Exceptions of one sort that are remembered of a ring: some 4 MB."""


class Limit:
    """How many more a ring may remember."""

    def __init__(self, left: int = MAX_REMEMBERED) -> None:
        self.left = left


class Seen(NamedTuple):
    """When an exception was first seen, on our own clock, and the shard that has the object."""

    since: float
    shard: ShardName


class Observer(Protocol):
    """Is told of exceptions as they come and go."""

    def noted(self, ref: ObjectRef, seen: Seen) -> None:
        """An exception was seen, maybe not for the first time."""
        ...

    def dropped(self, ref: ObjectRef) -> None:
        """It is over, as far as anybody knows."""
        ...


class Backlog:
    """Exceptions, the oldest first; another thread may read `count` and `age`."""

    def __init__(self, clock: Clock, limit: Limit, observer: Observer | None = None) -> None:
        self._clock = clock
        self._limit = limit
        self._observer = observer
        self._seen: dict[ObjectRef, Seen] = {}
        self._oldest: float | None = None

    def __iter__(self) -> Iterator[ObjectRef]:
        return iter(self._seen)

    def __contains__(self, ref: ObjectRef) -> bool:
        return ref in self._seen

    def count(self) -> int:
        """Return how many there are."""
        return len(self._seen)

    def age(self) -> float:
        """Return for how many seconds the oldest has been there, 0 without any."""
        oldest = self._oldest
        return 0.0 if oldest is None else self._clock.monotonic() - oldest

    def older_than(self, seconds: float) -> Iterator[tuple[ObjectRef, Seen]]:
        """Yield the exceptions that have been there for longer, the oldest first."""
        end = self._clock.monotonic() - seconds
        for ref, seen in self._seen.items():
            if seen.since >= end:
                return
            yield ref, seen

    def shard(self, ref: ObjectRef) -> ShardName | None:
        """Return the shard of an exception, None if that is not remembered."""
        seen = self._seen.get(ref)
        return None if seen is None else seen.shard

    def since(self, ref: ObjectRef) -> float | None:
        """Return when an exception was first seen, None if that is not remembered."""
        seen = self._seen.get(ref)
        return None if seen is None else seen.since

    def note(self, ref: ObjectRef, shard: ShardName) -> bool:
        """Remember an exception; return False if there is no room."""
        known = self._seen.get(ref)
        if known is None:
            if self._limit.left <= 0:
                return False
            self._limit.left -= 1
        seen = Seen(known.since if known else self._clock.monotonic(), shard)
        self._seen[ref] = seen
        self._look()
        if self._observer is not None:
            self._observer.noted(ref, seen)
        return True

    def drop(self, ref: ObjectRef) -> None:
        """Forget what is no exception any more."""
        if self._seen.pop(ref, None) is not None:
            self._limit.left += 1
            self._look()
            if self._observer is not None:
                self._observer.dropped(ref)

    def replace(
        self, within: ListRequest, now: Mapping[ObjectRef, ShardName]
    ) -> dict[ObjectRef, ShardName]:
        """Take a new list for what was known of a slice; return what is in it no more."""
        gone = {
            ref: seen.shard
            for ref, seen in self._seen.items()
            if ref not in now and within.holds(ref.namespace)
        }
        for ref in gone:
            self.drop(ref)
        for ref, shard in now.items():
            self.note(ref, shard)
        return gone

    def keep(self, wanted: Callable[[ObjectRef], bool]) -> None:
        """Forget all others."""
        for ref in [ref for ref in self._seen if not wanted(ref)]:
            self.drop(ref)

    def _look(self) -> None:
        first = next(iter(self._seen.values()), None)
        self._oldest = None if first is None else first.since

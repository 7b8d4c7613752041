"""The unassigned or the draining objects of one resource of a ring.

The memory for each ring is limited, whatever happens in the cluster: the resync handles the other
objects.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from sharder.core.names import ObjectRef, ShardName
from sharder.runtime.clock import Clock

MAX_REMEMBERED = 10_000
"""Limit on the remembered objects of a ring, unassigned and draining ones each: about 3 MB."""


class Limit:
    """How many more objects a ring can remember."""

    def __init__(self, left: int) -> None:
        self.left = left


class Seen(NamedTuple):
    """When an object was first seen, on our clock, and its shard."""

    since: float
    shard: ShardName


OnChange: TypeAlias = Callable[[ObjectRef, Seen | None], None]


class Backlog:
    """Objects, the oldest first; another thread can call `count` and `age`."""

    def __init__(
        self, clock: Clock, limit: Limit, on_change: OnChange = lambda _ref, _seen: None
    ) -> None:
        """Start empty; `on_change` is called with each change, and None for a removed object."""
        self._clock = clock
        self._limit = limit
        self._on_change = on_change
        self._seen: dict[ObjectRef, Seen] = {}
        self._oldest: float | None = None
        self.overflowed = clock.monotonic()
        """When the watch last showed an object beyond the limit; at first, the start."""

    def __iter__(self) -> Iterator[ObjectRef]:
        return iter(self._seen)

    def __contains__(self, ref: ObjectRef) -> bool:
        return ref in self._seen

    def count(self) -> int:
        """Return the number of objects."""
        return len(self._seen)

    def age(self) -> float:
        """Return the age of the oldest object in seconds, 0 without any."""
        oldest = self._oldest
        return 0.0 if oldest is None else self._clock.monotonic() - oldest

    def by_shard(self) -> dict[ShardName, tuple[int, float]]:
        """Return the number of each shard's objects, and the age of its oldest in seconds."""
        counts = Counter(seen.shard for seen in self._seen.values())
        now, oldest = self._clock.monotonic(), dict[ShardName, float]()
        for seen in self._seen.values():
            oldest.setdefault(seen.shard, seen.since)
            if len(oldest) == len(counts):
                break
        return {shard: (counts[shard], now - since) for shard, since in oldest.items()}

    def older_than(self, seconds: float) -> Iterator[tuple[ObjectRef, Seen]]:
        """Yield objects that have been in the backlog for longer, the oldest first."""
        end = self._clock.monotonic() - seconds
        for ref, seen in self._seen.items():
            if seen.since >= end:
                return
            yield ref, seen

    def shard(self, ref: ObjectRef) -> ShardName | None:
        """Return the shard of an object, None if it is not remembered."""
        seen = self._seen.get(ref)
        return None if seen is None else seen.shard

    def since(self, ref: ObjectRef) -> float | None:
        """Return when an object was first seen, None if it is not remembered."""
        seen = self._seen.get(ref)
        return None if seen is None else seen.since

    def note(self, ref: ObjectRef, shard: ShardName) -> bool:
        """Add or update an object; return False at the limit."""
        known = self._seen.get(ref)
        if known is None:
            if self._limit.left <= 0:
                return False
            self._limit.left -= 1
        seen = Seen(known.since if known else self._clock.monotonic(), shard)
        self._seen[ref] = seen
        self._update_oldest()
        self._on_change(ref, seen)
        return True

    def drop(self, ref: ObjectRef) -> None:
        """Remove an object."""
        if self._seen.pop(ref, None) is not None:
            self._limit.left += 1
            self._update_oldest()
            self._on_change(ref, None)

    def replace(
        self, namespace: str, now: Mapping[ObjectRef, ShardName]
    ) -> dict[ObjectRef, ShardName]:
        """Replace the objects of a namespace, or all, by a list; return those that are gone."""
        gone = {
            ref: seen.shard
            for ref, seen in self._seen.items()
            if ref not in now and namespace in {"", ref.namespace}
        }
        for ref in gone:
            self.drop(ref)
        for ref, shard in now.items():
            self.note(ref, shard)
        return gone

    def keep(self, wanted: Callable[[ObjectRef], bool]) -> None:
        """Remove all objects that are not wanted."""
        for ref in [ref for ref in self._seen if not wanted(ref)]:
            self.drop(ref)

    def _update_oldest(self) -> None:
        first = next(iter(self._seen.values()), None)
        self._oldest = None if first is None else first.since

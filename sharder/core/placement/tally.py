"""The shards of a ring's objects, compact enough for 100,000 objects.

Only strategies that stick need a tally.  A watch of metadata fills it.  As in kube-scheduler, a
decision of admission or the leader is *assumed* until the watch shows a later state of the object.
The tally changes only on one event loop, so an object is counted before the next one is placed.
"""

from collections import Counter
from collections.abc import Hashable
from sys import maxsize
from typing import Final, NamedTuple

import msgspec
from typing_extensions import override

from sharder.core.names import ShardName
from sharder.core.placement.counts import Counts, Entry, makes_room

AGE_SECONDS: Final = 1.0
"""Seconds between two calls of `age`."""

LIVES: Final = 30
"""How many times an assumption ages before it is forgotten: the watch can be late or broken."""

BRIEF_LIVES: Final = 3
"""The same for a request that the API server might have rejected, while the watch shows changes: a
create appears in the watch within a second, a failed one never does."""

_SLACK: Final = 1000
"""Unused entries are dropped once there are more than this plus the number of objects."""

NEWEST: Final = maxsize
"""A version after all others."""


class Reservation(NamedTuple):
    """An object and how it will count."""

    identity: int
    entry: Entry
    version: int = 0
    """The resourceVersion of the object that was read, 0 if it is new: the next version is either
    the one that was decided here, or makes the write a conflict."""


class Assumption(msgspec.Struct, gc=False):
    """How an object counts until the watch shows a version after `version`."""

    entry: Entry
    version: int
    brief: bool
    """Whether it comes from a request that can still be rejected, not from our own write."""
    age: int = 0
    """How many times it has aged."""


class Tally(Counts):
    """Objects by identity, in parts that are listed separately, with sums by shard and group."""

    def __init__(self) -> None:
        super().__init__()
        self.synced = False
        """Whether every part that can be read has been listed; until then, no object is placed."""
        self.changes = 0
        """Grows with every change."""
        self.departures = 0
        """Grows with every object that makes room on a shard, or for others of its group there."""
        self._parts: dict[Hashable, dict[int, Entry]] = {}
        """The oldest first; while several parts show an object, the first one counts."""
        self._shared: dict[Entry, Entry] = {}
        """The different entries of all parts: most objects have the same one as others."""
        self._assumed: dict[int, Assumption] = {}
        self._ages = 0
        self._is_live = False
        """Whether the watch has shown anything since `age` was last called."""

    @override
    def entry(self, identity: int) -> Entry | None:
        """Return how an object counts, None if it does not count."""
        assumed = self._assumed.get(identity)
        return self._shown(identity) if assumed is None else assumed.entry

    def shown_on_each(self) -> Counter[ShardName | None]:
        """Return `on_each` as the watch shows it: what is only assumed is not there yet."""
        on = Counter(self.on_each)
        for identity, assumed in self._assumed.items():
            on[assumed.entry.shard] -= 1
            if (shown := self._shown(identity)) is not None:
                on[shown.shard] += 1
        return +on

    def shown_on(self, identity: int) -> ShardName | None:
        """Return the owner that the watch has shown; assumptions do not count."""
        entry = self._shown(identity)
        return None if entry is None else entry.shard

    def reserved(self, identity: int) -> ShardName | None:
        """Return the shard that is reserved for an object, None without a pending reservation."""
        assumed = self._assumed.get(identity)
        return assumed.entry.shard if assumed is not None and not assumed.entry.draining else None

    def see(
        self, part: Hashable, identity: int, entry: Entry | None, version: int = NEWEST
    ) -> None:
        """Record an object as the watch shows it; `entry` is None if it is gone from the part.

        This settles an assumption about an earlier version of the object.
        """
        self._is_live = True
        assumed, shown = self._assumed.get(identity), self._shown(identity)
        before = _counted(assumed, shown)
        known = self._parts.setdefault(part, {})
        if entry is None:
            known.pop(identity, None)
            if not known:
                del self._parts[part]
        else:
            known[identity] = self._shared.setdefault(entry, entry)
        shown = self._shown(identity)
        is_later = entry is not None and assumed is not None and version > assumed.version
        if shown is None or is_later:
            self._assumed.pop(identity, None)
        self._count(before, _counted(self._assumed.get(identity), shown))

    def assume(self, reservation: Reservation, *, brief: bool = False) -> None:
        """Count an object where it was just placed; calling this again does not count it twice.

        `brief` is for a decision of admission: another client writes the object, or does not, so
        it is forgotten early.
        """
        self._assume(
            reservation.identity, Assumption(reservation.entry, reservation.version, brief)
        )

    def forget(self, identity: int) -> None:
        """Forget the assumption about an object."""
        self._assume(identity, None)

    def give_back(self, reservation: Reservation) -> None:
        """Forget a reservation that will not be written, unless another one has replaced it."""
        assumed = self._assumed.get(reservation.identity)
        if assumed is not None and assumed.entry is reservation.entry:
            self.forget(reservation.identity)

    def age(self) -> None:
        """Age all assumptions, and forget those that are too old."""
        for identity, assumed in list(self._assumed.items()):
            assumed.age += 1
            if assumed.age > (BRIEF_LIVES if assumed.brief and self._is_live else LIVES):
                self.forget(identity)
        self._is_live = False
        self._ages += 1
        if not self._ages % LIVES:
            self._tidy()

    def shown_by(self, part: Hashable) -> set[int]:
        """Return the objects that a part shows."""
        return set(self._parts.get(part, ()))

    def leave(self, part: Hashable) -> Hashable:
        """Rename a part whose objects leave, because a new one of its name can begin before."""
        leaving = object()
        self._parts = {leaving if p == part else p: known for p, known in self._parts.items()}
        return leaving

    def clear(self) -> None:
        """Drop all parts."""
        for part in list(self._parts):
            for identity in self.shown_by(part):
                self.see(part, identity, None)

    @override
    def _tidy(self) -> None:
        """Drop unused values: new shards and groups come and old ones go."""
        super()._tidy()
        if len(self._shared) > _SLACK + self.objects:
            self._shared = {e: e for part in self._parts.values() for e in part.values()}

    def _shown(self, identity: int) -> Entry | None:
        for part in self._parts.values():
            if (entry := part.get(identity)) is not None:
                return entry
        return None

    def _assume(self, identity: int, assumed: Assumption | None) -> None:
        """Replace the assumption about an object, and count the difference."""
        shown, known = self._shown(identity), self._assumed.pop(identity, None)
        if assumed is not None:
            self._assumed[identity] = assumed
        self._count(_counted(known, shown), _counted(assumed, shown))

    def _count(self, before: Entry | None, after: Entry | None) -> None:
        if before == after:
            return
        self.changes += 1
        if before is not None:
            self.departures += makes_room(before, after)
            self._add(before, -1)
        if after is not None:
            self._add(after, 1)


def _counted(assumed: Assumption | None, shown: Entry | None) -> Entry | None:
    """Return how an object counts, given the assumption about it and what the watch shows."""
    if assumed is None:
        return shown
    entry = assumed.entry
    is_proven = shown is not None and shown.stays and shown.shard == entry.shard
    is_unproven = entry.stays and not is_proven
    return msgspec.structs.replace(entry, unproven=True) if is_unproven else entry

"""Where the objects of a ring are, as compact as 100,000 of them need it.

Only strategies that stick need one.  It is fed by a watch of metadata; what an admission or the
leader has just decided is *assumed* until the watch shows it, or forgotten (as kube-scheduler's
cache does with pods).  One event loop owns it: a choice and its assumption are one step.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from sharder.names import ShardName
from sharder.placement.assumption import Assumption
from sharder.placement.entries import Entries, Entry, makes_room

LIVES: Final = 3
"""Calls of `age` that an assumption outlives."""

AGE_SECONDS: Final = 10.0
"""Between two calls of `age`: what the watch has not shown after 30 s did not happen."""

STEP: Final = 1000
"""Objects that are forgotten at a time: some 5 ms."""

K = TypeVar("K", int, ShardName)
S = TypeVar("S", ShardName, ShardName | None)

_NOBODY: Final[Mapping[ShardName, int]] = MappingProxyType({})
_NOTHING: Final[Mapping[ShardName | None, int]] = MappingProxyType({})


class Reservation(NamedTuple):
    """An object and what it becomes."""

    identity: int
    entry: Entry


class Tally:
    """Objects by identity, in parts that are listed apart; sums by shard and group."""

    def __init__(self) -> None:
        self.synced = False
        """Whether every part has been listed; until then nothing is placed by it."""
        self.changes = 0
        """Grows with every change."""
        self.departures = 0
        """Grows with every object that makes room, or was in the way of others of its group."""
        self._parts: dict[Hashable, Entries] = {}
        """The oldest first; of an object that several show for a while the first one stands."""
        self._assumed: dict[int, Assumption] = {}
        self._objects = 0
        self._on = Counter[ShardName | None]()
        self._staying = Counter[ShardName]()
        self._pinned = Counter[ShardName]()
        self._heading: dict[ShardName, dict[ShardName | None, int]] = {}
        self._draining = 0
        self._members: dict[int, dict[ShardName, int]] = {}

    @property
    def objects(self) -> int:
        """Those in scope, with or without owner."""
        return self._objects

    @property
    def unassigned(self) -> int:
        """Those without owner."""
        return self._on[None]

    @property
    def draining(self) -> int:
        """Those whose shard has been asked to let go."""
        return self._draining

    def entry(self, identity: int) -> Entry | None:
        """Return how an object counts, None if it does not."""
        assumed = self._assumed.get(identity)
        return self._found(identity) if assumed is None else assumed.entry

    def holds(self, identity: int) -> bool:
        """Tell whether an object is counted."""
        return self.entry(identity) is not None

    def on(self, shard: ShardName) -> int:
        """Return how many the shard has, those that it has been asked to let go included."""
        return self._on[shard]

    def heading_to(self, shard: ShardName) -> Mapping[ShardName | None, int]:
        """Return how many are to go there, by the shard that has yet to let go of them.

        None stands for those that have been let go, and are without owner for a moment.
        """
        return self._heading.get(shard, _NOTHING)

    def staying_on(self, shard: ShardName) -> int:
        """Return how many of them are neither draining nor being deleted."""
        return self._staying[shard]

    def pinned_on(self, shard: ShardName) -> int:
        """Return how many of those that stay are pinned to the shard."""
        return self._pinned[shard]

    def members_on(self, group: int, shard: ShardName) -> int:
        """Return how many of a group stay there, or are to go there."""
        return self.members_of(group).get(shard, 0)

    def members_of(self, group: int) -> Mapping[ShardName, int]:
        """Return the same of each shard that has any, those of shards that are gone included."""
        return self._members.get(group, _NOBODY)

    def where_counted(self, identity: int, group: int) -> ShardName | None:
        """Return the shard whose members of a group an object is one of, None if it is none."""
        entry = self.entry(identity)
        return entry.member_on if entry is not None and group in entry.groups else None

    def by_shard(self) -> dict[ShardName, int]:
        """Return how many objects each shard has."""
        return {shard: many for shard, many in self._on.items() if shard is not None and many}

    def shard_of(self, identity: int) -> ShardName | None:
        """Return the shard that an object counts on, None if it counts on none."""
        entry = self.entry(identity)
        return None if entry is None else entry.shard

    def room_of(self, identity: int) -> tuple[ShardName | None, ShardName | None]:
        """Return the shard that has an object, and the one to which it is to go."""
        entry = self.entry(identity)
        return (None, None) if entry is None else (entry.shard, entry.heading)

    def shown_on(self, identity: int) -> ShardName | None:
        """Return the owner that the watch has shown, whatever is assumed."""
        entry = self._found(identity)
        return None if entry is None else entry.shard

    def pending(self, identity: int) -> Reservation | None:
        """Return what is assumed of an object, None if nothing is."""
        assumed = self._assumed.get(identity)
        return None if assumed is None else Reservation(identity, assumed.entry)

    def reserved(self, identity: int) -> ShardName | None:
        """Return the shard that an object was promised, None unless that is pending."""
        assumed = self._assumed.get(identity)
        return assumed.entry.shard if assumed is not None and not assumed.entry.draining else None

    def see(self, part: Hashable, identity: int, entry: Entry | None) -> None:
        """Take note of an object as the watch shows it; None: it is gone.

        It confirms or refutes an assumption, unless it shows what was known before that.
        """
        before = self.entry(identity)
        known = self._parts.setdefault(part, Entries())
        if entry is None:
            known.pop(identity, None)
        else:
            known[identity] = entry
        self._count(before, self._shown(identity, self._found(identity)))

    def assume(self, reservation: Reservation) -> None:
        """Count an object where it was just placed; again and again it counts once."""
        identity, entry = reservation
        before = self.entry(identity)
        pending = self._assumed.get(identity)
        owner, passed = before.shard if before else None, frozenset[Entry]()
        if pending is not None:
            owner, passed = pending.before, pending.passed | {pending.entry}
        self._assumed[identity] = Assumption(entry, owner, passed, LIVES)
        self._count(before, entry)

    def forget(self, identity: int) -> None:
        """Give a reservation back: what was promised will not happen."""
        before = self.entry(identity)
        if self._assumed.pop(identity, None) is not None:
            self._count(before, self.entry(identity))

    def give_back(self, reservation: Reservation) -> None:
        """Give this very reservation back, unless another has taken its place."""
        identity, entry = reservation
        pending = self._assumed.get(identity)
        if pending is not None and pending.entry is entry:
            self.forget(identity)

    def age(self) -> None:
        """Let time pass: forget what has been assumed for too long."""
        for identity, assumed in list(self._assumed.items()):
            if not assumed.lives:
                self.forget(identity)
            else:
                self._assumed[identity] = assumed._replace(lives=assumed.lives - 1)
        self._tidy()

    def shown_by(self, part: Hashable) -> set[int]:
        """Return the objects that a part shows."""
        return set(self._parts.get(part, ()))

    def replace(self, part: Hashable, entries: Mapping[int, Entry]) -> None:
        """Take a new list for what was known of a part."""
        for identity in self.shown_by(part) - entries.keys():
            self.see(part, identity, None)
        for identity, entry in entries.items():
            self.see(part, identity, entry)

    def removing(self, part: Hashable, identities: Iterable[int]) -> Iterator[None]:
        """Forget what a part shows no more, in steps: yield whenever others should have a turn."""
        for number, identity in enumerate(identities, start=1):
            self.see(part, identity, None)
            if not number % STEP:
                yield

    def dropping(self, part: Hashable) -> Iterator[None]:
        """Drop a part in steps; what it showed stands until then, unless others show it."""
        leaving = object()  # another part of the same name may begin before the end
        self._parts = {leaving if p == part else p: known for p, known in self._parts.items()}
        return self._emptying(leaving)

    def clear(self) -> None:
        """Drop all parts, at once: they are listed no more."""
        for part in list(self._parts):
            list(self.dropping(part))

    def _emptying(self, part: Hashable) -> Iterator[None]:
        yield from self.removing(part, self.shown_by(part))
        self._parts.pop(part, None)

    def _tidy(self) -> None:
        """Drop what no object has any more: shards and groups come and go for ever."""
        for part in self._parts.values():
            part.tidy()
        self._on, self._staying = +self._on, +self._staying
        self._pinned = +self._pinned

    def _shown(self, identity: int, entry: Entry | None) -> Entry | None:
        """Return how an object counts that the watch shows as `entry`; it may be assumed still."""
        assumed = self._assumed.get(identity)
        if assumed is not None and not assumed.is_settled_by(entry):
            return assumed.entry
        self._assumed.pop(identity, None)
        return entry

    def _found(self, identity: int) -> Entry | None:
        for part in self._parts.values():
            entry = part.find(identity)
            if entry is not None:
                return entry
        return None

    def _count(self, before: Entry | None, after: Entry | None) -> None:
        if before == after:
            return
        self.changes += 1
        if before is not None:
            self.departures += makes_room(before, after)
            self._add(before, -1)
        if after is not None:
            self._add(after, 1)

    def _add(self, entry: Entry, one: int) -> None:
        shard = entry.shard
        self._objects += one
        self._on[shard] += one
        self._draining += one * entry.draining
        if entry.heading is not None:
            _add_to(self._heading, entry.heading, shard, one)
        member_on = entry.member_on
        if member_on is not None:
            for group in entry.groups:
                _add_to(self._members, group, member_on, one)
        if shard is not None and entry.stays:
            self._staying[shard] += one
            self._pinned[shard] += one * entry.pinned


def _add_to(sums: dict[K, dict[S, int]], key: K, shard: S, one: int) -> None:
    """Add to a sum of sums, and leave nothing behind where it becomes 0."""
    by_shard = sums.setdefault(key, {})
    by_shard[shard] = by_shard.get(shard, 0) + one
    if not by_shard[shard]:
        del by_shard[shard]
    if not by_shard:
        del sums[key]

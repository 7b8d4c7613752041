"""The shards of a ring's objects, compact enough for 100,000 objects.

Only strategies that stick need a tally.  A watch of metadata fills it.  As in kube-scheduler, a
decision of admission or the leader is *assumed* until the watch shows it, or else forgotten.  The
tally changes only on one event loop, so an object is counted before the next one is placed.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Set
from types import MappingProxyType
from typing import Final, NamedTuple

from sharder.core.names import ShardName
from sharder.core.placement.counting.assumption import LIVES, Assumption, Assumptions
from sharder.core.placement.counting.entries import Entries, Entry, makes_room
from sharder.core.placement.counting.sums import Counted, Sums

AGE_SECONDS: Final = 1.0
"""Seconds between two calls of `age`."""

STEP: Final = 1000
"""Objects that are forgotten in one step, which takes about 5 ms."""

_NONE_PASSED: Final[frozenset[Entry]] = frozenset()
_NO_MEMBERS: Final[Mapping[ShardName, int]] = MappingProxyType({})
_NOTHING: Final[Mapping[ShardName | None, int]] = MappingProxyType({})


class Reservation(NamedTuple):
    """An object and how it will count."""

    identity: int
    entry: Entry


class Tally:
    """Objects by identity, in parts that are listed separately, with sums by shard and group."""

    def __init__(self) -> None:
        self.synced = False
        """Whether every part that can be read has been listed; until then, no object is placed."""
        self.unread: tuple[str, ...] = ()
        """The parts that cannot be read now, for people: their objects are as last seen, or not
        counted."""
        self.changes = 0
        """Grows with every change."""
        self.departures = 0
        """Grows with every object that makes room on a shard, or for others of its group there."""
        self._parts: dict[Hashable, Entries] = {}
        """The oldest first; while several parts show an object, the first one counts."""
        self._assumed = Assumptions()
        self._ages = 0
        self._is_live = False
        """Whether the watch has shown anything since `age` was last called."""
        self._guests = set[int]()
        self._sums = Sums()

    @property
    def objects(self) -> int:
        """The number of objects in scope, assigned or not."""
        return self._sums.objects

    @property
    def unassigned(self) -> int:
        """The number of objects without an owner label."""
        return self._sums.on[None]

    @property
    def draining(self) -> int:
        """The number of draining objects."""
        return self._sums.draining

    def entry(self, identity: int) -> Entry | None:
        """Return how an object counts, None if it does not count."""
        assumed = self._assumed.find(identity)
        return self._found(identity) if assumed is None else assumed.entry

    def holds(self, identity: int) -> bool:
        """Return whether an object is counted."""
        return self.entry(identity) is not None

    def on(self, shard: ShardName) -> int:
        """Return how many objects the shard has, draining ones included."""
        return self._sums.on[shard]

    @property
    def on_each(self) -> Mapping[ShardName | None, int]:
        """How many objects each shard has; None stands for unassigned objects."""
        return self._sums.on

    @property
    def holding(self) -> Mapping[int, Set[ShardName]]:
        """The shards that have objects, by their number of objects."""
        return self._sums.holding

    def heading_to(self, shard: ShardName) -> Mapping[ShardName | None, int]:
        """Return how many objects go to the shard, by the shard that has yet to release them."""
        return self._sums.heading.get(shard, _NOTHING)

    @property
    def targets(self) -> Collection[ShardName]:
        """The shards to which any objects go."""
        return self._sums.heading.keys()

    def staying_on(self, shard: ShardName) -> int:
        """Return how many objects of the shard are neither draining nor being deleted."""
        return self._sums.staying[shard]

    def settled_on(self, shard: ShardName) -> int:
        """Return how many objects of `staying_on` the watch has shown; others are no excess."""
        return self._sums.staying[shard] - self._sums.unproven[shard]

    def is_guest(self, identity: int) -> bool:
        """Return whether an object stays on a shard to which it was pinned before.

        That is known only if the watch has shown the pin since the object is on that shard.
        """
        return identity in self._guests

    def guests_on(self, shard: ShardName) -> int:
        """Return how many objects stay on the shard although they are no longer pinned to it."""
        return self._sums.guests[shard]

    def pinned_on(self, shard: ShardName) -> int:
        """Return how many objects that stay on the shard are pinned to it."""
        return self._sums.pinned[shard]

    def members_on(self, group: int, shard: ShardName) -> int:
        """Return how many members of a group stay on the shard or go there."""
        return self.members_of(group).get(shard, 0)

    def members_of(self, group: int) -> Mapping[ShardName, int]:
        """Return the number of members for each shard that has any, even if the shard is gone."""
        return self._sums.members.get(group, _NO_MEMBERS)

    def where_counted(self, identity: int, group: int) -> ShardName | None:
        """Return the shard on which an object counts for a group, None if there is none."""
        entry = self.entry(identity)
        return entry.member_on if entry is not None and group in entry.groups else None

    def by_shard(self) -> dict[ShardName, int]:
        """Return how many objects each shard has."""
        on = self._sums.on
        return {shard: many for shard, many in on.items() if shard is not None and many}

    def shown_on_each(self) -> Counter[ShardName | None]:
        """Return `on_each` as the watch shows it: what is only assumed is not there yet."""
        shown = Counter(self._sums.on)
        for identity, assumed in self._assumed:
            shown[assumed.entry.shard] -= 1
            if (found := self._found(identity)) is not None:
                shown[found.shard] += 1
        return +shown

    def shard_of(self, identity: int) -> ShardName | None:
        """Return the shard on which an object counts, None if there is none."""
        entry = self.entry(identity)
        return None if entry is None else entry.shard

    def room_of(self, identity: int) -> tuple[ShardName | None, ShardName | None]:
        """Return the shard that has an object, and the one to which it goes."""
        entry = self.entry(identity)
        return (None, None) if entry is None else (entry.shard, entry.heading)

    def shown_on(self, identity: int) -> ShardName | None:
        """Return the owner that the watch has shown; assumptions do not count."""
        entry = self._found(identity)
        return None if entry is None else entry.shard

    def pending(self, identity: int) -> Assumption | None:
        """Return the assumption about an object, None if there is none."""
        return self._assumed.find(identity)

    def reserved(self, identity: int) -> ShardName | None:
        """Return the shard that is reserved for an object, None without a pending reservation."""
        assumed = self._assumed.find(identity)
        return assumed.entry.shard if assumed is not None and not assumed.entry.draining else None

    def see(self, part: Hashable, identity: int, entry: Entry | None) -> None:
        """Record an object as the watch shows it; `entry` is None if it is gone.

        This confirms or refutes an assumption, unless the watch shows an earlier state.
        """
        self._is_live = True
        before, was = self._counted(identity), self._found(identity)
        known = self._parts.setdefault(part, Entries())
        if entry is None:
            known.pop(identity, None)
        else:
            known[identity] = entry
        shown = self._found(identity)
        self._settle(identity, shown)
        self._receive(identity, was, shown)
        self._count(before, self._counted(identity))

    def assume(self, reservation: Reservation, *, brief: bool = False) -> None:
        """Count an object where it was just placed; calling this again does not count it twice.

        `brief` is for a decision of admission: another client writes the object, or does not.
        Such assumptions are forgotten early, and the oldest one if there are too many.
        """
        identity, entry = reservation
        pending, shown = self._assumed.find(identity), self._found(identity)
        before = self._counted_as(identity, pending.entry if pending else shown, shown)
        owner, passed = before.entry.shard if before.entry else None, _NONE_PASSED
        if pending is not None:
            owner, passed = pending.before, pending.passed | {pending.entry}
        surplus = self._assumed.add(identity, Assumption(entry, owner, passed, brief))
        self._count(before, self._counted_as(identity, entry, shown))
        if surplus is not None:
            self.forget(surplus)

    def forget(self, identity: int) -> None:
        """Forget a reservation that will not be written."""
        before = self._counted(identity)
        if self._assumed.drop(identity):
            self._count(before, self._counted(identity))

    def give_back(self, reservation: Reservation) -> None:
        """Forget this reservation, unless another one has replaced it."""
        identity, entry = reservation
        pending = self._assumed.find(identity)
        if pending is not None and pending.entry is entry:
            self.forget(identity)

    def age(self) -> None:
        """Age all assumptions, and forget those that are too old."""
        for identity in self._assumed.grow_older(is_live=self._is_live):
            self.forget(identity)
        self._is_live = False
        self._ages += 1
        if not self._ages % LIVES:
            self._tidy()

    def shown_by(self, part: Hashable) -> set[int]:
        """Return the objects that a part shows."""
        return set(self._parts.get(part, ()))

    def replace(self, part: Hashable, entries: Mapping[int, Entry]) -> None:
        """Replace the objects of a part with those of a new list."""
        for identity in self.shown_by(part) - entries.keys():
            self.see(part, identity, None)
        for identity, entry in entries.items():
            self.see(part, identity, entry)

    def removing(self, part: Hashable, identities: Iterable[int]) -> Iterator[None]:
        """Forget objects that a part no longer shows; yield between steps."""
        for number, identity in enumerate(identities, start=1):
            self.see(part, identity, None)
            if not number % STEP:
                yield

    def dropping(self, part: Hashable) -> Iterator[None]:
        """Drop a part in steps; an object counts until its step, or while another part has it."""
        leaving = object()  # A new part of the same name can begin before this one has ended.
        self._parts = {leaving if p == part else p: known for p, known in self._parts.items()}
        return self._emptying(leaving)

    def clear(self) -> None:
        """Drop all parts at once."""
        for part in list(self._parts):
            list(self.dropping(part))

    def _emptying(self, part: Hashable) -> Iterator[None]:
        yield from self.removing(part, self.shown_by(part))
        self._parts.pop(part, None)

    def _tidy(self) -> None:
        """Drop unused values: new shards and groups come and old ones go."""
        for part in self._parts.values():
            part.tidy()
        self._sums.tidy()

    def _settle(self, identity: int, shown: Entry | None) -> None:
        """Drop an assumption that the watch confirms or refutes."""
        assumed = self._assumed.find(identity)
        if assumed is not None and assumed.is_settled_by(shown):
            self._assumed.drop(identity)

    def _receive(self, identity: int, was: Entry | None, shown: Entry | None) -> None:
        """Remember an object that loses its pin and stays, until it moves or is pinned again."""
        if was is None or shown is None or was.shard != shown.shard or shown.pinned:
            self._guests.discard(identity)
        elif was.pinned:
            self._guests.add(identity)

    def _counted(self, identity: int) -> Counted:
        assumed, shown = self._assumed.find(identity), self._found(identity)
        return self._counted_as(identity, shown if assumed is None else assumed.entry, shown)

    def _counted_as(self, identity: int, entry: Entry | None, shown: Entry | None) -> Counted:
        """Return how an object with the entry `entry` counts while the watch shows `shown`."""
        if entry is None or not entry.stays:
            return Counted(entry)
        is_proven = shown is not None and shown.stays and shown.shard == entry.shard
        is_guest = is_proven and not entry.pinned and identity in self._guests
        unproven_on = None if is_proven else entry.shard
        return Counted(entry, unproven_on, entry.shard if is_guest else None)

    def _found(self, identity: int) -> Entry | None:
        for part in self._parts.values():
            if (entry := part.find(identity)) is not None:
                return entry
        return None

    def _count(self, before: Counted, after: Counted) -> None:
        if before == after:
            return
        self.changes += 1
        if before.entry is not None:
            self.departures += makes_room(before.entry, after.entry)
        self._sums.add(before, -1)
        self._sums.add(after, 1)

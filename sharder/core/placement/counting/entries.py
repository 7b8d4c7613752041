"""How each object counts: up to 200 bytes per object, sums included."""

from collections.abc import Hashable, Iterator, Mapping, MutableMapping
from typing import Final, Generic, TypeVar

import msgspec
from msgspec.structs import replace
from typing_extensions import override

from sharder.core.names import ShardName

T = TypeVar("T", bound=Hashable)

_BITS: Final = 32
_REST: Final = 2**_BITS - 1
"""The low bits of a code hold the place of an entry without its groups; the bits above hold the
place of its groups."""

_SLACK: Final = 1000
"""Unused shared values are dropped once there are more than this plus the number of objects."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """How one object counts."""

    shard: ShardName | None
    groups: tuple[int, ...] = ()
    """The groups for which it counts."""
    draining: bool = False
    deleting: bool = False
    pinned: bool = False
    """Whether it is pinned to this shard."""
    once_pinned: bool = False
    """Whether it was pinned to this shard before, and has stayed.  That is known only if the watch
    has shown the pin since the object is there."""
    heading: ShardName | None = None
    """The shard to which it goes next, if known; it already takes room there."""

    @property
    def stays(self) -> bool:
        """Whether it is neither draining nor being deleted."""
        return self.shard is not None and not (self.draining or self.deleting)

    @property
    def member_on(self) -> ShardName | None:
        """The shard on which it counts for its groups: where it stays or goes, else None."""
        return self.shard if self.stays else None if self.deleting else self.heading


def makes_room(before: Entry, after: Entry | None) -> bool:
    """Return whether an object makes room: it leaves its shard, its target, or a group there."""
    reached = () if after is None else (after.heading, after.shard)
    if before.heading is not None and before.heading not in reached:
        return True
    if after is None or after.shard != before.shard:
        return before.shard is not None
    still = after.groups if after.member_on == before.member_on else ()
    return before.member_on is not None and not set(before.groups).issubset(still)


class Entries(MutableMapping[int, Entry]):
    """Entries by identity; equal parts are stored once.

    Many objects have the same groups, and most objects of a shard are equal apart from their
    groups, but few objects are equal in both.  So an object is stored as one number, its code,
    which refers to its groups and to the rest of its entry.
    """

    __slots__ = ("_codes", "_groups", "_rests")

    def __init__(self, entries: Mapping[int, Entry] | None = None) -> None:
        self._codes: dict[int, int] = {}
        self._rests = _Table[Entry](_NOWHERE)
        """All entries that occur, without their groups."""
        self._groups = _Table[tuple[int, ...]](())
        self.update(entries or {})

    @override
    def __getitem__(self, identity: int) -> Entry:
        code = self._codes[identity]
        rest, groups = self._rests.values[code & _REST], self._groups.values[code >> _BITS]
        return replace(rest, groups=groups) if groups else rest

    def find(self, identity: int) -> Entry | None:
        """Return an entry, None if there is none; faster than `get`, which raises and catches."""
        return self[identity] if identity in self._codes else None

    @override
    def __setitem__(self, identity: int, entry: Entry) -> None:
        rest = replace(entry, groups=()) if entry.groups else entry
        groups = self._groups.place_of(entry.groups)
        self._codes[identity] = groups << _BITS | self._rests.place_of(rest)

    @override
    def __delitem__(self, identity: int) -> None:
        del self._codes[identity]

    @override
    def __iter__(self) -> Iterator[int]:
        return iter(self._codes)

    @override
    def __len__(self) -> int:
        return len(self._codes)

    @property
    def shared(self) -> int:
        """The number of shared values, unused ones included."""
        return len(self._rests.values) + len(self._groups.values) - 2  # without the initial ones

    def tidy(self) -> None:
        """Drop unused values if there are many: shards and groups come and go."""
        if self.shared > _SLACK + len(self):
            fresh = Entries(self)
            self._codes, self._rests, self._groups = fresh._codes, fresh._rests, fresh._groups


class _Table(Generic[T]):
    """Values and their places, which begin with 0."""

    __slots__ = ("_places", "values")

    def __init__(self, first: T) -> None:
        self.values = [first]
        self._places = {first: 0}

    def place_of(self, value: T) -> int:
        place = self._places.setdefault(value, len(self.values))
        if place == len(self.values):
            self.values.append(value)
        return place


_NOWHERE: Final = Entry(None)

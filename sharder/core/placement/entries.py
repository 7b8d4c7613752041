"""What is known of many objects, in up to 200 bytes each with what is summed up of them."""

from collections.abc import Hashable, Iterator, Mapping, MutableMapping
from typing import Final, Generic, NamedTuple, TypeVar

from typing_extensions import override

from sharder.core.names import ShardName

T = TypeVar("T", bound=Hashable)

_BITS: Final = 32
_REST: Final = 2**_BITS - 1
"""A number holds the place of the groups above so many bits, and that of the rest in them."""

_SLACK: Final = 1000
"""Shared values are kept up to this and one for each object, before they are looked through."""


class Entry(NamedTuple):
    """What is known of an object."""

    shard: ShardName | None
    groups: tuple[int, ...] = ()
    """Those it counts for."""
    draining: bool = False
    deleting: bool = False
    pinned: bool = False
    """To this very shard."""
    heading: ShardName | None = None
    """Where it goes when it is let go, or was, if that is known: it takes room there already."""

    @property
    def stays(self) -> bool:
        """Whether its shard is to keep it, as far as it is known."""
        return self.shard is not None and not (self.draining or self.deleting)

    @property
    def member_on(self) -> ShardName | None:
        """The shard on which it is one of its groups: where it stays, or goes; None if nowhere."""
        return self.shard if self.stays else None if self.deleting else self.heading


def makes_room(before: Entry, after: Entry | None) -> bool:
    """Return whether an object leaves its shard, where it was heading, or a group of its shard."""
    reached = () if after is None else (after.heading, after.shard)
    if before.heading is not None and before.heading not in reached:
        return True
    if after is None or after.shard != before.shard:
        return before.shard is not None
    still = after.groups if after.member_on == before.member_on else ()
    return before.member_on is not None and not set(before.groups).issubset(still)


class Entries(MutableMapping[int, Entry]):
    """Entries by identity; what many have in common is kept once.

    Objects share their groups with the others of the group, and the rest with most of their
    shard, but both together with few; hence each is a number that tells one and the other.
    """

    __slots__ = ("_codes", "_groups", "_rests")

    def __init__(self, entries: Mapping[int, Entry] | None = None) -> None:
        self._codes: dict[int, int] = {}
        self._rests = _Table[Entry](_NOWHERE)
        """Entries without groups."""
        self._groups = _Table[tuple[int, ...]](())
        self.update(entries or {})

    @override
    def __getitem__(self, identity: int) -> Entry:
        code = self._codes[identity]
        rest, groups = self._rests.values[code & _REST], self._groups.values[code >> _BITS]
        return rest._replace(groups=groups) if groups else rest

    def find(self, identity: int) -> Entry | None:
        """Return an entry, None if there is none; `get` would raise and catch for each."""
        return self[identity] if identity in self._codes else None

    @override
    def __setitem__(self, identity: int, entry: Entry) -> None:
        rest = entry._replace(groups=()) if entry.groups else entry
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
        """How many values are kept to be shared, those that nobody has any more included."""
        return len(self._rests.values) + len(self._groups.values) - 2  # without the first ones

    def tidy(self) -> None:
        """Drop what no object has any more, if it is much: shards and groups come and go."""
        if self.shared > _SLACK + len(self):
            fresh = Entries(self)
            self._codes, self._rests, self._groups = fresh._codes, fresh._rests, fresh._groups


class _Table(Generic[T]):
    """Values by their places, the first of which is 0."""

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

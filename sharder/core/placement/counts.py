"""The counts of a ring's objects, which strategies that stick use: sums by shard and by group.

They take up to 200 bytes for each object.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec

from sharder.core.names import ShardName

K = TypeVar("K", int, ShardName)
S = TypeVar("S", ShardName, ShardName | None)

_NO_MEMBERS: Final[Mapping[ShardName, int]] = MappingProxyType({})
_NOTHING: Final[Mapping[ShardName | None, int]] = MappingProxyType({})


class Entry(msgspec.Struct, frozen=True, gc=False):
    """How one object counts."""

    shard: ShardName | None
    groups: tuple[int, ...] = ()
    """The groups for which it counts."""
    draining: bool = False
    deleting: bool = False
    pinned: bool = False
    """Whether it is pinned, to this shard or to one to which it goes when that has room."""
    heading: ShardName | None = None
    """The shard to which it goes next, if known; it already takes room there."""
    unproven: bool = False
    """Whether it stays on its shard only by assumption: the watch has not shown it there."""

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


class Counts:
    """How many objects of a ring's main resources are on which shards; none at first."""

    def __init__(self) -> None:
        self.unread: tuple[str, ...] = ()
        """The parts that cannot be read now, for people: their objects are as last seen, or not
        counted."""
        self.objects = 0
        """The number of objects in scope, assigned or not."""
        self.draining = 0
        """The number of draining objects."""
        self.on_each = Counter[ShardName | None]()
        """How many objects each shard has; None stands for unassigned objects."""
        self.holding: dict[int, set[ShardName]] = {}
        """The shards that have objects, by their number of objects."""
        self._staying = Counter[ShardName]()
        self._unproven = Counter[ShardName]()
        """The objects of `_staying` that stay there only by assumption."""
        self._pinned = Counter[ShardName]()
        self._heading: dict[ShardName, dict[ShardName | None, int]] = {}
        """Moving objects, by target and by the shard that has to release them first."""
        self._members: dict[int, dict[ShardName, int]] = {}
        """Members, by group and by shard."""

    def entry(self, identity: int) -> Entry | None:
        """Return how an object counts, None if it does not count."""
        del identity  # nothing is counted here
        return None

    def shard_of(self, identity: int) -> ShardName | None:
        """Return the shard on which an object counts, None if there is none."""
        entry = self.entry(identity)
        return None if entry is None else entry.shard

    @property
    def unassigned(self) -> int:
        """The number of objects without an owner label."""
        return self.on_each[None]

    def on(self, shard: ShardName) -> int:
        """Return how many objects the shard has, draining ones included."""
        return self.on_each[shard]

    def by_shard(self) -> dict[ShardName, int]:
        """Return how many objects each shard has, without shards that have none."""
        return {shard: many for shard, many in self.on_each.items() if shard is not None and many}

    def heading_to(self, shard: ShardName) -> Mapping[ShardName | None, int]:
        """Return how many objects go to the shard, by the shard that has yet to release them.

        None stands for released objects, which are unassigned for a moment.
        """
        return self._heading.get(shard, _NOTHING)

    @property
    def targets(self) -> Collection[ShardName]:
        """The shards to which any objects go."""
        return self._heading.keys()

    def staying_on(self, shard: ShardName) -> int:
        """Return how many objects of the shard are neither draining nor being deleted."""
        return self._staying[shard]

    def settled_on(self, shard: ShardName) -> int:
        """Return how many objects of `staying_on` the watch has shown; others are no excess."""
        return self._staying[shard] - self._unproven[shard]

    def pinned_on(self, shard: ShardName) -> int:
        """Return how many objects of `staying_on` are pinned, to this shard or to another one."""
        return self._pinned[shard]

    def members_of(self, group: int) -> Mapping[ShardName, int]:
        """Return the number of members for each shard that has any, even if the shard is gone."""
        return self._members.get(group, _NO_MEMBERS)

    def _add(self, entry: Entry, one: int) -> None:
        """Add an object to the sums, or remove it if `one` is -1."""
        shard = entry.shard
        self.objects += one
        self._add_on(shard, one)
        if entry.draining:
            self.draining += one
        if entry.heading is not None:
            _add_to(self._heading, entry.heading, shard, one)
        if entry.groups and (member_on := entry.member_on) is not None:
            for group in entry.groups:
                _add_to(self._members, group, member_on, one)
        if shard is not None and entry.stays:
            self._staying[shard] += one
            self._pinned[shard] += one * entry.pinned
            self._unproven[shard] += one * entry.unproven

    def _add_on(self, shard: ShardName | None, one: int) -> None:
        """Count an object on a shard, and update `holding`."""
        before = self.on_each[shard]
        after = self.on_each[shard] = before + one
        if shard is None:
            return
        if before:
            equals = self.holding[before]
            equals.remove(shard)
            if not equals:
                del self.holding[before]
        if after:
            self.holding.setdefault(after, set()).add(shard)

    def _tidy(self) -> None:
        """Drop shards without objects: new shards come and old ones go."""
        self.on_each, self._staying = +self.on_each, +self._staying
        self._pinned, self._unproven = +self._pinned, +self._unproven


def _add_to(sums: dict[K, dict[S, int]], key: K, shard: S, one: int) -> None:
    """Add to a nested sum, and remove entries that become 0."""
    by_shard = sums.setdefault(key, {})
    by_shard[shard] = by_shard.get(shard, 0) + one
    if not by_shard[shard]:
        del by_shard[shard]
    if not by_shard:
        del sums[key]


NO_COUNTS: Final = Counts()
"""The counts for strategies that follow."""

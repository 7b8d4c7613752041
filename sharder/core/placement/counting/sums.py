"""The counts of a ring's objects: sums that are updated object by object."""

from collections import Counter
from typing import TypeVar

import msgspec

from sharder.core.names import ShardName
from sharder.core.placement.counting.entries import Entry

K = TypeVar("K", int, ShardName)
S = TypeVar("S", ShardName, ShardName | None)


class Counted(msgspec.Struct, frozen=True, gc=False):
    """How an object counts."""

    entry: Entry | None
    unproven_on: ShardName | None = None
    """The shard on which it stays, if only an assumption says so."""
    guest_on: ShardName | None = None
    """The shard on which it stays, if it was pinned there before and no longer is."""


class Sums:
    """Numbers of objects: in total, by shard, and by group and shard."""

    def __init__(self) -> None:
        self.objects = 0
        self.draining = 0
        self.on = Counter[ShardName | None]()
        """None stands for unassigned objects."""
        self.holding: dict[int, set[ShardName]] = {}
        """The shards that have objects, by their number in `on`."""
        self.staying = Counter[ShardName]()
        """The objects that are neither draining nor being deleted."""
        self.unproven = Counter[ShardName]()
        """The objects that stay there only by assumption."""
        self.pinned = Counter[ShardName]()
        self.guests = Counter[ShardName]()
        """The objects that stay there although they are no longer pinned there."""
        self.heading: dict[ShardName, dict[ShardName | None, int]] = {}
        """Moving objects, by target and by the shard that has to release them first."""
        self.members: dict[int, dict[ShardName, int]] = {}
        """Members, by group and by shard."""

    def add(self, counted: Counted, one: int) -> None:
        """Add an object, or remove it if `one` is -1."""
        if counted.entry is not None:
            self._add(counted.entry, one)
        if counted.unproven_on is not None:
            self.unproven[counted.unproven_on] += one
        if counted.guest_on is not None:
            self.guests[counted.guest_on] += one

    def tidy(self) -> None:
        """Drop shards without objects: new shards come and old ones go."""
        self.on, self.staying = +self.on, +self.staying
        self.pinned, self.unproven = +self.pinned, +self.unproven
        self.guests = +self.guests

    def _add(self, entry: Entry, one: int) -> None:
        shard = entry.shard
        self.objects += one
        self._move(shard, one)
        if entry.draining:
            self.draining += one
        if entry.heading is not None:
            _add_to(self.heading, entry.heading, shard, one)
        if entry.groups and (member_on := entry.member_on) is not None:
            for group in entry.groups:
                _add_to(self.members, group, member_on, one)
        if shard is not None and entry.stays:
            self.staying[shard] += one
            if entry.pinned:
                self.pinned[shard] += one

    def _move(self, shard: ShardName | None, one: int) -> None:
        """Count an object on a shard, and update `holding`."""
        before = self.on[shard]
        after = self.on[shard] = before + one
        if shard is None:
            return
        if before:
            equals = self.holding[before]
            equals.remove(shard)
            if not equals:
                del self.holding[before]
        if after:
            self.holding.setdefault(after, set()).add(shard)


def _add_to(sums: dict[K, dict[S, int]], key: K, shard: S, one: int) -> None:
    """Add to a nested sum, and remove entries that become 0."""
    by_shard = sums.setdefault(key, {})
    by_shard[shard] = by_shard.get(shard, 0) + one
    if not by_shard[shard]:
        del by_shard[shard]
    if not by_shard:
        del sums[key]

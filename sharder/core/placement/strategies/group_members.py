"""On which shards the other members of an object's group are."""

from collections.abc import Mapping
from typing import Final

import msgspec

from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counting.counts import Counts
from sharder.core.placement.demand import NO_GROUP, Demand
from sharder.core.placement.strategy import Layout


class GroupMembers(msgspec.Struct, frozen=True, gc=False):
    """The members of a group except the object itself, on all shards of the ring."""

    on: Mapping[ShardName, int]
    """Members by shard; shards without members are omitted."""
    in_zone: Mapping[str, int]
    """Members by the place of their shards; places without members are omitted."""
    regions: frozenset[str]

    def here(self, shard: Shard) -> int:
        """Return how many members are on the shard."""
        return self.on.get(shard.name, 0)

    def near(self, place: str) -> int | None:
        """Return how many members are in the zone of a shard's place, None without a zone."""
        return self.in_zone.get(place, 0) if place else None

    def around(self, shard: Shard) -> str:
        """Return how many members are on and near a shard, for people."""
        zone = f"{self.near(shard.place)} in its zone" if shard.zone else "it has no zone"
        return f"{self.here(shard)} of its group here, {zone}"


NO_MEMBERS: Final = GroupMembers({}, {}, frozenset())


def group_members_of(demand: Demand, layout: Layout, counts: Counts) -> GroupMembers:
    """Return the other members of an object's group, including those on unavailable shards."""
    members = counts.members_of(demand.group)
    if demand.group == NO_GROUP or not members:
        return NO_MEMBERS
    on: dict[ShardName, int] = {}
    in_zone: dict[str, int] = {}
    regions: set[str] = set()
    # If an object has lost its shard, it must not count: it would bind itself to that region.
    entry = counts.entry(demand.identity)
    itself = None if entry is None or demand.group not in entry.groups else entry.member_on
    for name, counted in members.items():
        shard, others = layout.by_name.get(name), counted - (name == itself)
        if shard is None or not others:
            continue
        on[name] = others
        if shard.region:
            regions.add(shard.region)
        if shard.zone:
            in_zone[shard.place] = in_zone.get(shard.place, 0) + others
    return GroupMembers(on, in_zone, frozenset(regions))

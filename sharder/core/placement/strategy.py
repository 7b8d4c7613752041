"""The interface of strategies: a strategy chooses one of the shards that can have an object.

It is built for the shards of a ring and called for each object.  `placer` lists all strategies.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import fsum
from typing import ClassVar, Final, NamedTuple, TypeAlias

import msgspec

from sharder.core.api.ring import PlacementSpec
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counts import Counts
from sharder.core.placement.demand import NO_GROUP, Demand
from sharder.core.placement.ranking import Ranking

CustomFunction: TypeAlias = Callable[[Demand, Sequence[Shard], Counts], ShardName | None]
"""An installed entry point: (object, candidates, counts) → one of the candidates, or None."""

Objection: TypeAlias = Callable[[Shard], str | None]
"""Returns why a shard must not get an object, None if it can."""


class Size(NamedTuple):
    """All properties of a shard that its ceiling depends on."""

    weight: float | None
    """None for a closed shard, which has no automatic ceiling."""
    declared: int | None


class Choice(msgspec.Struct, frozen=True, gc=False):
    """Where an object belongs, or why it has to wait."""

    shard: ShardName | None
    reason: str = ""
    """For people; not empty if there is no shard."""
    fault: bool = False
    """Whether the strategy is at fault: it is not installed, or its answer was rejected."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a strategy is built from; derived values are computed once."""

    spec: PlacementSpec
    shards: tuple[Shard, ...]
    """All shards of the ring, by name, available or not: zones and pools include all of them."""
    available: tuple[Shard, ...]
    """The shards that own objects, by name."""
    ranking: ClassVar[Ranking] = Ranking()
    """The order of shards for a key, where a strategy defines none of its own."""
    custom: Mapping[str, CustomFunction] = field(default_factory=dict)
    """The installed entry points, by name."""

    @cached_property
    def essence(self) -> tuple[object, ...]:
        """Everything that a strategy that follows can use: no capacities, which change often."""
        described = [replace(s, capacity={}) if s.capacity else s for s in self.available]
        return self.spec, tuple(described), self.custom, self.newest

    @cached_property
    def names(self) -> frozenset[ShardName]:
        """The names of the available shards."""
        return frozenset(shard.name for shard in self.available)

    @cached_property
    def by_name(self) -> Mapping[ShardName, Shard]:
        """All shards, available or not."""
        return {shard.name: shard for shard in (*self.shards, *self.available)}

    def declared_by(self, shard: Shard) -> int | None:
        """Return the ceiling that the shard or the ring declares; None: no ceiling."""
        return lowest(shard.ceiling, self.spec.per_shard_capacity)

    @cached_property
    def closed(self) -> Mapping[ShardName, Shard]:
        """The available shards that get no new objects.

        They are cordoned, evacuating, or without a zone or pool that the ring requires.
        """
        return {
            shard.name: shard
            for shard in self.available
            if shard.set_aside
            or (self.spec.require_pool and not shard.pool)
            or (self.spec.require_zone and not shard.zone)
        }

    @cached_property
    def evacuating(self) -> frozenset[ShardName]:
        """The available shards that are being evacuated."""
        return frozenset(shard.name for shard in self.available if shard.evacuating)

    @cached_property
    def newest(self) -> str | None:
        """The newest revision while shards of several revisions are available, else None.

        It is the revision of the ready shard that took its Lease last.  Shards without a revision
        do not count.
        """
        revised = [shard for shard in self.available if shard.revision]
        if len({shard.revision for shard in revised}) < 2:
            return None
        return max(revised, key=lambda shard: (shard.ready, shard.since, shard.name)).revision

    @cached_property
    def weight(self) -> float:
        """The sum of the weights of the available shards that are not closed."""
        return fsum(shard.weight for shard in self.available if shard.name not in self.closed)

    @cached_property
    def is_even(self) -> bool:
        """Whether all available shards have the same weight."""
        return len({shard.weight for shard in self.available}) < 2

    def highest(self, key: str, shards: Sequence[Shard]) -> Shard:
        """Return the shard with the highest score for a key; `shards` are available, not empty."""
        ranking = self.ranking
        return (ranking.best_of_equals if self.is_even else ranking.best)(key, shards)

    @cached_property
    def sizes(self) -> Mapping[ShardName, Size]:
        """The sizes of the available shards; usually few are different."""
        return {
            shard.name: Size(
                None if shard.name in self.closed else shard.weight, self.declared_by(shard)
            )
            for shard in self.available
        }

    @cached_property
    def different_sizes(self) -> Sequence[Size]:
        """The sizes that occur."""
        return tuple(dict.fromkeys(self.sizes.values()))

    @cached_property
    def open(self) -> tuple[Shard, ...]:
        """The available shards that are not closed."""
        return tuple(shard for shard in self.available if shard.name not in self.closed)

    @cached_property
    def _open_by_place(self) -> Mapping[str, Sequence[Shard]]:
        return _by_place(self.open)

    def by_place(self, shards: Sequence[Shard]) -> Mapping[str, Sequence[Shard]]:
        """Return shards by their places; cached for `open`, which are the usual candidates."""
        return self._open_by_place if shards is self.open else _by_place(shards)

    @cached_property
    def pool_limit(self) -> int:
        """The most objects of a pool; it has no meaning without `pools`."""
        return self.spec.pool_capacity or 0

    @cached_property
    def pools(self) -> Mapping[str, Sequence[Shard]]:
        """The shards of each pool, available or not; empty if pools have no limit."""
        pools: dict[str, list[Shard]] = {}
        for shard in self.shards if self.spec.pool_capacity is not None else ():
            if shard.pool:
                pools.setdefault(shard.pool, []).append(shard)
        return pools


def lowest(*limits: int | None) -> int | None:
    """Return the lowest limit, None if there is none."""
    return min((limit for limit in limits if limit is not None), default=None)


def _by_place(shards: Iterable[Shard]) -> Mapping[str, Sequence[Shard]]:
    places: dict[str, list[Shard]] = defaultdict(list)
    for shard in shards:
        places[shard.place].append(shard)
    return places


class Strategy(ABC):
    """Chooses among candidates that have passed every hard filter; built for one layout."""

    __slots__ = ("layout",)
    sticks: ClassVar[bool] = True
    """Whether an object stays on its shard while it can; else it always follows `choose`."""

    def __init__(self, layout: Layout) -> None:
        """Build the strategy for the shards of a layout."""
        self.layout = layout

    def share(self, weight: float, objects: int) -> int | None:
        """Return the automatic ceiling of an open shard for so many objects, None: no ceiling."""
        del weight, objects
        return None

    @abstractmethod
    def choose(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Choice:
        """Return one of `candidates`, or why none; they are ordered by name and not empty."""

    def declines(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Objection:
        """Return a function that says why one of `candidates` must not get the object."""
        del demand, candidates, counts
        return lambda _shard: None

    @abstractmethod
    def remarks(
        self, demand: Demand, candidates: Sequence[Shard], counts: Counts
    ) -> dict[ShardName, str]:
        """Return the arguments for or against each of `candidates`, for people."""


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

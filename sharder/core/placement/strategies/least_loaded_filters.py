"""How full shards are, as exact numbers: what is equally full must compare equal.

Fractions would say the same, ten times slower: every load is an integer over one denominator that
all shards of a ring share.

The cuts of LeastLoaded, in order: each keeps some of the shards that the one before kept.

Those that ask for something may keep none, and the object has to wait; those that prefer
something always keep some (docs/placement.md, "LeastLoaded").
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, lcm
from typing import Final, NamedTuple, TypeAlias

from sharder.core.api.ring import AntiAffinity
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counts import Counts
from sharder.core.placement.strategies.group_members import GroupMembers
from sharder.core.placement.strategy import Layout, Objection


@dataclass(frozen=True, slots=True)
class ActiveLoads:
    """The active load of every shard of a ring: 100 · objects / capacity."""

    percent: int
    """The parts that make one percent."""
    of: Mapping[ShardName, int]
    """In such parts."""

    def total(self, shards: Sequence[Shard]) -> int:
        """Return the loads of shards together."""
        return sum(self.of[shard.name] for shard in shards)

    def mean(self, shards: Sequence[Shard]) -> Fraction:
        """Return the mean load of one shard or more."""
        return Fraction(self.total(shards), len(shards))

    def shown(self, load: int | Fraction) -> str:
        """Return a load as people read it."""
        return f"{float(Fraction(load) / self.percent):.4g} %"


class Capacities:
    """For how many objects each shard of a ring has room."""

    __slots__ = ("_common", "_limits")

    def __init__(self, layout: Layout) -> None:
        # A limit of none counts as one of 1, which is exceeded likewise.
        self._limits = {
            shard: limit if limit is None else max(limit, 1)
            for shard, limit in layout.declared.items()
        }
        self._common = lcm(*filter(None, self._limits.values()))

    def loads(self, counts: Counts) -> ActiveLoads:
        """Return the loads at these counts; without a limit, the largest holder counts as full."""
        held = {shard: counts.on(shard) for shard in self._limits}
        largest = max(held.values(), default=0) or 1
        percent = self._common * largest
        loads = {
            shard: 100 * held[shard] * (percent // (limit or largest))
            for shard, limit in self._limits.items()
        }
        return ActiveLoads(percent, loads)


FEWEST: Final = 4
"""Shards from which on nothing is dropped for load or room: upstream's."""

Shards: TypeAlias = tuple[Shard, ...]


class Filter(NamedTuple):
    """What one cut did."""

    name: str
    kept: Shards
    objection: str
    """What speaks against those that it dropped; if it kept none, why the object has to wait."""


Work: TypeAlias = Callable[["FilterChain", Shards], Filter]
"""Does one cut."""

Cuts: TypeAlias = tuple[tuple[bool, Work], ...]
"""Each with whether it asks for something, so that it may keep no shard."""


class FilterChain:
    """What the cuts look at, for one object at one moment."""

    __slots__ = ("_capacities", "_counts", "_fellows", "_layout", "_loads")

    def __init__(
        self, layout: Layout, counts: Counts, fellows: GroupMembers, capacities: Capacities
    ) -> None:
        self._layout = layout
        self._counts = counts
        self._fellows = fellows
        self._capacities = capacities
        self._loads: ActiveLoads | None = None

    def cuts(self, candidates: Sequence[Shard]) -> list[Filter]:
        """Return the cuts for one candidate or more, up to the first that keeps none.

        If all keep some, the last one has the fullest first, equals by name.
        """
        return list(self._cuts(candidates))

    def last(self, candidates: Sequence[Shard], effective: Cuts) -> Filter:
        """Return the last of them, or an earlier one that leaves one shard alone for good.

        Asked are the `effective` cuts of the layout; the others would drop nothing.
        """
        last = Filter("", tuple(candidates), "")
        for demands, work in effective:
            if len(last.kept) == 1 and not demands:
                break
            last = work(self, last.kept)
            if not last.kept:
                break
        return last

    def objections(self, candidates: Sequence[Shard], effective: Cuts) -> Objection:
        """Return what tells why one of `candidates` is not what a cut asks for, None if it is."""
        kept = tuple(candidates)
        dropped: dict[ShardName, str] = {}
        for demands, work in effective:
            if demands:
                cut = work(self, kept)
                names = {shard.name for shard in cut.kept}
                dropped |= {s.name: cut.objection for s in kept if s.name not in names}
                kept = cut.kept
        return lambda shard: dropped.get(shard.name)

    def _cuts(self, candidates: Sequence[Shard]) -> Iterator[Filter]:
        kept = tuple(candidates)
        for _, work in self._all():
            done = work(self, kept)
            yield done
            kept = done.kept
            if not kept:
                return

    @classmethod
    def effective(cls, layout: Layout) -> Cuts:
        """Return the cuts that can drop a shard of the layout: most have nothing to do there."""
        spec, available = layout.spec, layout.available
        idle: dict[Work, bool] = {
            cls._apart_from_fellows: spec.anti_affinity is not AntiAffinity.REQUIRED,
            cls._in_region_of_fellows: not any(shard.region for shard in layout.shards),
            cls._with_enough_zones: spec.min_zones <= 1,
            cls._zoned: len({bool(shard.zone) for shard in available}) < 2,
            cls._pooled: len({bool(shard.pool) for shard in available}) < 2,
            cls._pools_with_room: spec.pool_capacity is None,
        }
        return tuple(cut for cut in cls._all() if not idle.get(cut[1], False))

    @classmethod
    def _all(cls) -> Cuts:
        return (
            (True, cls._apart_from_fellows),
            (True, cls._in_region_of_fellows),
            (True, cls._with_enough_zones),
            (False, cls._zoned),
            (False, cls._zones_with_fewest_fellows),
            (False, cls._zones_with_lowest_load),
            (False, cls._pooled),
            (False, cls._fewest_fellows),
            (False, cls._lower_loads),
            (False, cls._pools_with_room),
        )

    def word_on(self, shard: Shard) -> str:
        """Return what the cuts see in a shard."""
        word = f"active load {self.loads.shown(self.loads.of[shard.name])}"
        if not self._fellows.on:
            return word
        here, near = self._fellows.here(shard), self._fellows.near(shard)
        return f"{word}, {here} of its group here, " + (
            f"{near} in its zone" if shard.zone else "it has no zone"
        )

    @property
    def loads(self) -> ActiveLoads:
        """How full the shards are; worked out when a cut asks for it, for others often decide."""
        if self._loads is None:
            self._loads = self._capacities.loads(self._counts)
        return self._loads

    def _apart_from_fellows(self, shards: Shards) -> Filter:
        name = "antiAffinity"
        if self._layout.spec.anti_affinity is not AntiAffinity.REQUIRED:
            return Filter(name, shards, "")
        kept = tuple(s for s in shards if not self._fellows.here(s))
        if kept:
            return Filter(name, kept, "it holds a member of the group")
        every = f"every shard that may have it ({len(shards)}) holds a member of its group"
        return Filter(name, kept, f"antiAffinity Required: {every}")

    def _in_region_of_fellows(self, shards: Shards) -> Filter:
        name, regions = "region", self._fellows.regions
        if not regions:
            return Filter(name, shards, "")
        kept = tuple(s for s in shards if s.region in regions)
        where = f"the group is in the region {', '.join(sorted(regions))}"
        if kept:
            return Filter(name, kept, where)
        return Filter(name, kept, f"{where}, no shard that may have it ({len(shards)}) is there")

    def _with_enough_zones(self, shards: Shards) -> Filter:
        name, minimum = "minZones", self._layout.spec.min_zones
        # One zone is no demand: shards that have no zones at all meet it.
        if not self._fellows.on or minimum <= 1:
            return Filter(name, shards, "")
        zones = {s.place for s in shards if s.zone} | self._fellows.in_zone.keys()
        if len(zones) >= minimum:
            return Filter(name, shards, "")
        some = "1 zone" if len(zones) == 1 else f"{len(zones)} zones"
        return Filter(name, (), f"the group may use {some}, minZones is {minimum}")

    def _zoned(self, shards: Shards) -> Filter:
        kept = tuple([s for s in shards if s.zone]) or shards
        return Filter("zoned", kept, "it has no zone, others have")

    def _zones_with_fewest_fellows(self, shards: Shards) -> Filter:
        kept = _least(shards, self._fellows.near)
        return Filter("members in zone", kept, "another zone has fewer of the group")

    def _zones_with_lowest_load(self, shards: Shards) -> Filter:
        name, objection = "load of zone", "the mean load of another zone is lower"
        # As upstream: the first of a group may go to any zone.
        if not self._fellows.on or not shards[0].zone:
            return Filter(name, shards, objection)
        zones = defaultdict[tuple[str, str], list[int]](list)
        for shard in shards:
            zones[shard.place].append(self.loads.of[shard.name])
        if len(zones) == 1:
            return Filter(name, shards, objection)
        scale = lcm(*map(len, zones.values()))
        means = {place: sum(loads) * (scale // len(loads)) for place, loads in zones.items()}
        return Filter(name, _least(shards, lambda shard: means[shard.place]), objection)

    def _pooled(self, shards: Shards) -> Filter:
        kept = tuple([s for s in shards if s.pool]) or shards
        return Filter("pooled", kept, "it has no pool, others have")

    def _fewest_fellows(self, shards: Shards) -> Filter:
        kept = _least(shards, self._fellows.here)
        return Filter("members", kept, "another shard holds fewer of the group")

    def _lower_loads(self, shards: Shards) -> Filter:
        order, many = self._fullest_first(shards), len(shards)
        if many <= FEWEST:
            return Filter("load", order, "")
        mean = self.loads.mean(shards)
        # A hundredth of what is free at the mean may come on top of it.
        bound = mean + (100 * self.loads.percent - mean) / 100
        most = floor(bound)
        above = sum(self.loads.of[s.name] > most for s in order)
        dropped = max(0, min(above, many - max(FEWEST, many // 5)))
        objection = f"its load is above the cut of {self.loads.shown(bound)}"
        return Filter("load", order[dropped:], objection)

    def _pools_with_room(self, shards: Shards) -> Filter:
        name, limit = "room of pool", self._layout.spec.pool_capacity
        # Pools without a limit are all as roomy as one another.
        if limit is None or not shards[0].pool:
            return Filter(name, shards, "")
        pools = {shard.pool for shard in shards}
        room = {
            pool: limit - sum(self._counts.on(s.name) for s in self._layout.pools[pool])
            for pool in pools
        }
        many = len(shards)
        roomy = sum(room[s.pool] >= limit // 2 for s in shards)
        take = max(FEWEST, many * 4 // 5, roomy)
        kept = sorted(shards, key=lambda shard: room[shard.pool])[-take:]
        return Filter(name, self._fullest_first(kept), "other pools have more room")

    def _fullest_first(self, shards: Sequence[Shard]) -> Shards:
        if len(shards) == 1:
            return tuple(shards)
        return tuple(sorted(shards, key=lambda shard: (-self.loads.of[shard.name], shard.name)))


def _least(shards: Shards, amount: Callable[[Shard], int]) -> Shards:
    amounts = list(map(amount, shards))
    least = min(amounts)
    if amounts.count(least) == len(shards):
        return shards
    return tuple([s for s, found in zip(shards, amounts, strict=True) if found == least])

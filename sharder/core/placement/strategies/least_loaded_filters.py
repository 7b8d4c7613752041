"""The filters of LeastLoaded in order: each keeps some of the shards that the previous one kept.

If a hard filter keeps no shard, the object has to wait.  The other filters only prefer shards, and
always keep some (docs/placement.md, "LeastLoaded").
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import lcm
from typing import Final, TypeAlias

import msgspec

from sharder.core.api.ring import AntiAffinity
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counting.counts import Counts
from sharder.core.placement.strategies.active_loads import ActiveLoads, Capacities
from sharder.core.placement.strategies.group_members import GroupMembers
from sharder.core.placement.strategy import Layout, Objection

FEWEST: Final = 4
"""The minimum number of shards that the filters for load and room keep, as upstream."""

Shards: TypeAlias = tuple[Shard, ...]
Zones: TypeAlias = Mapping[str, Sequence[Shard]]


class FilterResult(msgspec.Struct, frozen=True, gc=False):
    """The result of one filter."""

    name: str
    kept: Shards
    objection: str
    """Why the filter dropped shards; if it kept none, why the object has to wait."""


Filter: TypeAlias = Callable[["FilterChain", Shards], FilterResult]

Filters: TypeAlias = tuple[tuple[bool, Filter], ...]
"""Pairs of a flag and a filter; True means that the filter is hard, so it can drop all shards."""


class FilterChain:
    """The filters for one object at one moment."""

    __slots__ = ("_capacities", "_counts", "_layout", "_loads", "_members")

    def __init__(
        self, layout: Layout, counts: Counts, members: GroupMembers, capacities: Capacities
    ) -> None:
        self._layout = layout
        self._counts = counts
        self._members = members
        self._capacities = capacities
        self._loads: ActiveLoads | None = None

    def results(self, candidates: Sequence[Shard]) -> list[FilterResult]:
        """Return the results for `candidates`, which are not empty.

        They end with the first filter that keeps no shard.  If all filters keep some, the last
        result has the fullest shards first, and equally full ones by name.
        """
        return list(self._results(candidates))

    def last(self, candidates: Sequence[Shard], effective: Filters) -> FilterResult:
        """Return the last result, or an earlier one whose only shard no later filter would drop.

        Only the `effective` filters of the layout run, because the others would drop no shard.
        """
        last = FilterResult("", tuple(candidates), "")
        for is_hard, run in effective:
            if len(last.kept) == 1 and not is_hard:
                break
            last = run(self, last.kept)
            if not last.kept:
                break
        return last

    def objections(self, candidates: Sequence[Shard], effective: Filters) -> Objection:
        """Return a function that says why a hard filter drops a candidate, None if none does."""
        kept = tuple(candidates)
        dropped: dict[ShardName, str] = {}
        for is_hard, run in effective:
            if is_hard:
                result = run(self, kept)
                names = {shard.name for shard in result.kept}
                dropped |= {s.name: result.objection for s in kept if s.name not in names}
                kept = result.kept
        return lambda shard: dropped.get(shard.name)

    def _results(self, candidates: Sequence[Shard]) -> Iterator[FilterResult]:
        kept = tuple(candidates)
        zones = (FilterChain._zones_with_fewest_members, FilterChain._zones_with_lowest_load)
        for _, run in self._all(*zones):
            result = run(self, kept)
            yield result
            kept = result.kept
            if not kept:
                return

    @classmethod
    def effective(cls, layout: Layout) -> Filters:
        """Return the filters that can drop a shard of the layout; the two by zone are merged."""
        spec, available = layout.spec, layout.available
        idle: dict[Filter, bool] = {
            cls._apart_from_members: spec.anti_affinity is not AntiAffinity.REQUIRED,
            cls._in_region_of_members: not any(shard.region for shard in layout.shards),
            cls._with_enough_zones: spec.min_zones <= 1,
            cls._zoned: len({bool(shard.zone) for shard in available}) < 2,
            cls._best_zones: not any(shard.zone for shard in available),
            cls._pooled: len({bool(shard.pool) for shard in available}) < 2,
            cls._pools_with_room: spec.pool_capacity is None,
        }
        each = cls._all(cls._best_zones)
        return tuple((is_hard, run) for is_hard, run in each if not idle.get(run, False))

    @classmethod
    def _all(cls, *by_zone: Filter) -> Filters:
        return (
            (True, cls._apart_from_members),
            (True, cls._in_region_of_members),
            (True, cls._with_enough_zones),
            (False, cls._zoned),
            *((False, run) for run in by_zone),
            (False, cls._pooled),
            (False, cls._fewest_members),
            (False, cls._lower_loads),
            (False, cls._pools_with_room),
        )

    def remark_on(self, shard: Shard) -> str:
        """Return the load of a shard and the members of the group there, for people."""
        load = f"active load {self.loads.shown(*self.loads.of([shard]))}"
        if not self._members.on:
            return load
        here, near = self._members.here(shard), self._members.near(shard.place)
        return f"{load}, {here} of its group here, " + (
            f"{near} in its zone" if shard.zone else "it has no zone"
        )

    @property
    def loads(self) -> ActiveLoads:
        """How full the shards are; computed only if needed, because other filters often decide."""
        if self._loads is None:
            self._loads = self._capacities.loads(self._counts)
        return self._loads

    def _apart_from_members(self, shards: Shards) -> FilterResult:
        name = "antiAffinity"
        if self._layout.spec.anti_affinity is not AntiAffinity.REQUIRED:
            return FilterResult(name, shards, "")
        kept = tuple(s for s in shards if not self._members.here(s))
        if kept:
            return FilterResult(name, kept, "it holds a member of the group")
        every = f"every shard that can take the object ({len(shards)}) holds a member of its group"
        return FilterResult(name, kept, f"antiAffinity Required: {every}")

    def _in_region_of_members(self, shards: Shards) -> FilterResult:
        name, regions = "region", self._members.regions
        if not regions:
            return FilterResult(name, shards, "")
        kept = tuple(s for s in shards if s.region in regions)
        where = f"the group is in the region {', '.join(sorted(regions))}"
        if kept:
            return FilterResult(name, kept, where)
        none = f"but no shard that can take the object ({len(shards)}) is there"
        return FilterResult(name, kept, f"{where}, {none}")

    def _with_enough_zones(self, shards: Shards) -> FilterResult:
        name, minimum = "minZones", self._layout.spec.min_zones
        # Shards without a zone satisfy a minimum of 1.
        if not self._members.on or minimum <= 1:
            return FilterResult(name, shards, "")
        zones = {s.place for s in shards if s.zone} | self._members.in_zone.keys()
        if len(zones) >= minimum:
            return FilterResult(name, shards, "")
        some = "1 zone" if len(zones) == 1 else f"{len(zones)} zones"
        return FilterResult(name, (), f"the group can use {some}, minZones is {minimum}")

    def _zoned(self, shards: Shards) -> FilterResult:
        kept = tuple([s for s in shards if s.zone]) or shards
        return FilterResult("zoned", kept, "it has no zone, others have")

    def _zones_with_fewest_members(self, shards: Shards) -> FilterResult:
        left = self._with_fewest_members(self._layout.by_place(shards))
        kept = _within(left, shards)
        return FilterResult("members in zone", kept, "another zone has fewer of the group")

    def _zones_with_lowest_load(self, shards: Shards) -> FilterResult:
        left = self._with_lowest_load(self._layout.by_place(shards))
        kept = _within(left, shards)
        return FilterResult("load of zone", kept, "the mean load of another zone is lower")

    def _best_zones(self, shards: Shards) -> FilterResult:
        """Apply both filters by zone, without the list of shards in between."""
        if not self._members.on:
            return FilterResult("", shards, "")
        left = self._with_fewest_members(self._layout.by_place(shards))
        return FilterResult("", _within(self._with_lowest_load(left), shards), "")

    def _with_fewest_members(self, zones: Zones) -> Zones:
        near = self._members.in_zone
        return _least(zones, {place: near.get(place, 0) for place in zones}) if near else zones

    def _with_lowest_load(self, zones: Zones) -> Zones:
        # As upstream, the first member of a group can go to any zone.
        if len(zones) == 1 or not self._members.on:
            return zones
        total, scale = self.loads.total, lcm(*map(len, zones.values()))
        means = {place: total(here) * (scale // len(here)) for place, here in zones.items()}
        return _least(zones, means)

    def _pooled(self, shards: Shards) -> FilterResult:
        kept = tuple([s for s in shards if s.pool]) or shards
        return FilterResult("pooled", kept, "it has no pool, others have")

    def _fewest_members(self, shards: Shards) -> FilterResult:
        name, objection = "members", "another shard holds fewer of the group"
        on = self._members.on
        if not on:
            return FilterResult(name, shards, objection)
        kept = tuple([shard for shard in shards if shard.name not in on])
        if not kept:
            least = min(on[shard.name] for shard in shards)
            kept = tuple([shard for shard in shards if on[shard.name] == least])
        return FilterResult(name, kept, objection)

    def _lower_loads(self, shards: Shards) -> FilterResult:
        loads, many = self.loads.of(shards), len(shards)
        falling = sorted(range(many), key=loads.__getitem__, reverse=True)
        order = tuple([shards[place] for place in falling])
        if many <= FEWEST:
            return FilterResult("load", order, "")
        # The bound is the mean load plus one hundredth of the room that is free at the mean.
        bounds = 99 * sum(loads) + 100 * self.loads.percent * many
        most = bounds // (100 * many)
        above = len([load for load in loads if load > most])
        dropped = max(0, min(above, many - max(FEWEST, many // 5)))
        objection = f"its load is above the limit of {self.loads.shown(bounds, among=100 * many)}"
        return FilterResult("load", order[dropped:], objection)

    def _pools_with_room(self, shards: Shards) -> FilterResult:
        name, limit = "room of pool", self._layout.spec.pool_capacity
        # Without a limit, all pools have the same room.
        if limit is None or not shards[0].pool:
            return FilterResult(name, shards, "")
        pools = {shard.pool for shard in shards}
        room = {
            pool: limit - sum(self._counts.on(s.name) for s in self._layout.pools[pool])
            for pool in pools
        }
        many = len(shards)
        roomy = sum(room[s.pool] >= limit // 2 for s in shards)
        take = max(FEWEST, many * 4 // 5, roomy)
        roomiest = {s.name for s in sorted(shards, key=lambda shard: room[shard.pool])[-take:]}
        kept = tuple([shard for shard in shards if shard.name in roomiest])
        return FilterResult(name, kept, "other pools have more room")


def _least(zones: Zones, amounts: Mapping[str, int]) -> Zones:
    """Return the zones with the smallest amount."""
    least = min(amounts.values())
    return {place: here for place, here in zones.items() if amounts[place] == least}


def _within(zones: Zones, shards: Shards) -> Shards:
    """Return the shards that are in these zones; `zones` contain no other shards."""
    if len(zones) == 1:
        return tuple(*zones.values())
    if sum(map(len, zones.values())) == len(shards):
        return shards
    return tuple([shard for shard in shards if shard.place in zones])

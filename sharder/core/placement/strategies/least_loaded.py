"""LeastLoaded: a chain of filters, then a weighted choice that prefers emptier shards.

Each filter keeps some of the shards that the previous one kept.  If a hard filter keeps no shard,
the object has to wait.  The other filters only prefer shards, and always keep some
(docs/placement.md, "LeastLoaded").

Source: the gear placement of OpenShift v2 (openshift/origin-server, rpc_find_all_available and
select_best_fit_node_impl), where gears are objects, nodes are shards and districts are pools.
Three of its faults are fixed here: zones are compared by their mean load and not by the sum, zones
without a candidate are not compared, and a filter that prefers some shards keeps all of them and
not only the last one.  Its random number comes from the object's key here, so that all replicas
make the same choice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from math import lcm
from typing import Final, TypeAlias

import msgspec
from typing_extensions import override
from xxhash import xxh3_64_intdigest

from sharder.core.api.ring import AntiAffinity
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counts import Counts
from sharder.core.placement.demand import Demand
from sharder.core.placement.ranking import place_at, weights
from sharder.core.placement.strategy import Choice, Layout, Objection, Strategy, group_members_of

FEWEST: Final = 4
"""The minimum number of shards that the filters for load and room keep, as upstream."""

_SEED: Final = 0x67656172
"""The seed ("gear") makes the draw independent of rankings, which hash the key without a seed."""

Shards: TypeAlias = tuple[Shard, ...]


class Cut(msgspec.Struct, frozen=True, gc=False):
    """The result of one filter."""

    name: str
    kept: Shards
    objection: str
    """Why the filter dropped shards; if it kept none, why the object has to wait."""


class LeastLoaded(Strategy):
    """Gear placement; sticks."""

    __slots__ = ("capacities", "different", "pools_differ", "zones_differ")

    def __init__(self, layout: Layout) -> None:
        """Compute what does not depend on the object."""
        super().__init__(layout)
        # A limit of 0 counts as 1: one object makes the shard full in both cases.
        self.capacities = {
            name: None if (limit := layout.declared_by(shard)) is None else max(limit, 1)
            for name, shard in layout.by_name.items()
        }
        self.different = set(self.capacities.values())
        self.zones_differ = len({bool(shard.zone) for shard in layout.available}) > 1
        self.pools_differ = len({bool(shard.pool) for shard in layout.available}) > 1

    @override
    def choose(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Choice:
        """Return one of the shards that the last filter keeps, or why a filter keeps none."""
        cut = Cut("", (), "")
        for number, cut in enumerate(Chain(self, demand, counts).cuts(candidates), start=1):
            if number >= HARD and len(cut.kept) == 1:
                return Choice(cut.kept[0].name)
        many = len(cut.kept)
        if not many:
            return Choice(None, cut.objection)
        position = self.draw(demand, sum(weights(many)))
        return Choice(cut.kept[place_at(position, many)].name)

    def draw(self, demand: Demand, total: int) -> int:
        """Return a number below `total`, uniformly distributed, that depends only on the key."""
        return xxh3_64_intdigest(demand.key.encode(), seed=_SEED) * total >> 64

    @override
    def declines(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Objection:
        """Decline the shards that a hard filter drops."""
        cuts = islice(Chain(self, demand, counts).cuts(candidates), HARD)
        judged = [(cut.objection, {shard.name for shard in cut.kept}) for cut in cuts]
        return lambda shard: next((why for why, kept in judged if shard.name not in kept), None)

    @override
    def remarks(
        self, demand: Demand, candidates: Sequence[Shard], counts: Counts
    ) -> dict[ShardName, str]:
        """Return each shard's load, and the filter that drops it or its weight in the draw."""
        chain = Chain(self, demand, counts)
        kept, fates = tuple(candidates), dict[ShardName, str]()
        for cut in chain.cuts(candidates):
            dropped = f"dropped by {cut.name}: {cut.objection}"
            names = {shard.name for shard in cut.kept}
            fates |= {shard.name: dropped for shard in kept if shard.name not in names}
            kept = cut.kept
        row = weights(len(kept))
        for shard, weight in zip(kept, row, strict=True):
            fates[shard.name] = f"in the draw with a weight of {weight} of {sum(row)}"
        return {s.name: f"{chain.remark_on(s)}; {fates[s.name]}" for s in candidates}


class Chain:
    """The filters for one object at one moment.

    Loads are exact, because equally full shards must compare equal.  Each load is an integer, in
    parts that are the same for all shards of a ring.  Fractions would be ten times slower.
    """

    __slots__ = ("_counts", "_layout", "_members", "_of", "_parts", "_whole", "_zones")

    def __init__(self, of: LeastLoaded, demand: Demand, counts: Counts) -> None:
        self._of = of
        self._layout = of.layout
        self._counts = counts
        self._members = group_members_of(demand, of.layout, counts)
        self._zones: Mapping[str, Sequence[Shard]] = {}
        """The shards by place that the filters by zone keep."""
        holding, known = counts.holding, of.capacities.keys()
        largest = max((n for n, at in holding.items() if not known.isdisjoint(at)), default=1)
        self._whole = lcm(*[capacity or largest for capacity in of.different])
        """The parts of a full shard; without capacities, the shard with most objects is full."""
        self._parts = {each: self._whole // (each or largest) for each in of.different}
        """The parts that one object adds on a shard, by the capacity of the shard."""

    def cuts(self, candidates: Sequence[Shard]) -> Iterator[Cut]:
        """Yield the results for `candidates`, which are not empty.

        They end with the first filter that keeps no shard.  If all filters keep some, the last
        result has the fullest shards first, and equally full ones by name.
        """
        kept = tuple(candidates)
        for name, keep in FILTERS:
            kept, objection = keep(self, kept)
            yield Cut(name, kept, objection)
            if not kept:
                return

    def loads(self, shards: Sequence[Shard]) -> list[int]:
        """Return the load of each shard, in parts."""
        on, parts, capacities = self._counts.on_each, self._parts, self._of.capacities
        if len(parts) == 1:  # the usual case: an object is one part of each shard
            return [on.get(shard.name, 0) for shard in shards]
        return [on.get(s.name, 0) * parts[capacities[s.name]] for s in shards]

    def remark_on(self, shard: Shard) -> str:
        """Return the load of a shard and the members of the group there, for people."""
        (parts,) = self.loads([shard])
        load = f"active load {self.percent(parts):.4g} %"
        return f"{load}, {self._members.around(shard)}" if self._members.on else load

    def percent(self, load: int, *, among: int = 1) -> float:
        """Return the mean of `among` loads with the sum `load`, in percent of a full shard."""
        return 100 * load / (among * self._whole)

    def apart_from_members(self, shards: Shards) -> tuple[Shards, str]:
        """Keep the shards without a member of the group, if the ring requires that."""
        if self._layout.spec.anti_affinity is not AntiAffinity.REQUIRED:
            return shards, ""
        kept = tuple(s for s in shards if not self._members.here(s))
        if kept:
            return kept, "it holds a member of the group"
        every = f"every shard that can take the object ({len(shards)}) holds a member of its group"
        return kept, f"antiAffinity Required: {every}"

    def in_region_of_members(self, shards: Shards) -> tuple[Shards, str]:
        """Keep the shards in the regions of the group."""
        regions = self._members.regions
        if not regions:
            return shards, ""
        kept = tuple(s for s in shards if s.region in regions)
        where = f"the group is in the region {', '.join(sorted(regions))}"
        none = f", but no shard that can take the object ({len(shards)}) is there"
        return kept, where if kept else where + none

    def with_enough_zones(self, shards: Shards) -> tuple[Shards, str]:
        """Keep all shards if the group can use enough zones, else none."""
        minimum = self._layout.spec.min_zones
        # Shards without a zone satisfy a minimum of 1.
        if not self._members.on or minimum <= 1:
            return shards, ""
        zones = {s.place for s in shards if s.zone} | self._members.in_zone.keys()
        if len(zones) >= minimum:
            return shards, ""
        some = "1 zone" if len(zones) == 1 else f"{len(zones)} zones"
        return (), f"the group can use {some}, minZones is {minimum}"

    def zoned(self, shards: Shards) -> tuple[Shards, str]:
        """Prefer shards in a zone."""
        kept = tuple([s for s in shards if s.zone]) if self._of.zones_differ else ()
        return kept or shards, "it has no zone, others have"

    def in_zones_with_fewest_members(self, shards: Shards) -> tuple[Shards, str]:
        """Prefer the zones with the fewest members."""
        near = self._members.in_zone
        if not near:
            return shards, ""
        self._zones = zones = self._layout.by_place(shards)
        kept = self._in_least({place: near.get(place, 0) for place in zones}, shards)
        return kept, "another zone has fewer of the group"

    def in_zones_with_lowest_load(self, shards: Shards) -> tuple[Shards, str]:
        """Prefer the zones with the lowest mean load."""
        # As upstream, the first member of a group can go to any zone.
        zones = self._zones or (self._layout.by_place(shards) if self._members.on else {})
        if len(zones) < 2:
            return shards, ""
        self._zones = zones
        scale = lcm(*map(len, zones.values()))
        means = {p: sum(self.loads(here)) * (scale // len(here)) for p, here in zones.items()}
        return self._in_least(means, shards), "the mean load of another zone is lower"

    def _in_least(self, amounts: Mapping[str, int], shards: Shards) -> Shards:
        """Keep the zones with the smallest amount; `shards` are those of all zones."""
        least, before = min(amounts.values()), len(self._zones)
        self._zones = {p: here for p, here in self._zones.items() if amounts[p] == least}
        if len(self._zones) == before:
            return shards
        if len(self._zones) == 1:
            return tuple(*self._zones.values())
        return tuple([shard for shard in shards if shard.place in self._zones])

    def pooled(self, shards: Shards) -> tuple[Shards, str]:
        """Prefer shards in a pool."""
        kept = tuple([s for s in shards if s.pool]) if self._of.pools_differ else ()
        return kept or shards, "it has no pool, others have"

    def with_fewest_members(self, shards: Shards) -> tuple[Shards, str]:
        """Prefer the shards with the fewest members."""
        on = self._members.on
        if not on:
            return shards, ""
        kept = tuple([shard for shard in shards if shard.name not in on])
        if not kept:
            least = min(on[shard.name] for shard in shards)
            kept = tuple([shard for shard in shards if on[shard.name] == least])
        return kept, "another shard holds fewer of the group"

    def with_lower_loads(self, shards: Shards) -> tuple[Shards, str]:
        """Sort the shards by load, and drop those far above the mean."""
        loads, many = self.loads(shards), len(shards)
        falling = sorted(range(many), key=loads.__getitem__, reverse=True)
        order = tuple([shards[place] for place in falling])
        if many <= FEWEST:
            return order, ""
        # The bound is the mean load plus one hundredth of the room that is free at the mean.
        bounds = 99 * sum(loads) + self._whole * many
        most = bounds // (100 * many)
        above = len([load for load in loads if load > most])
        dropped = max(0, min(above, many - max(FEWEST, many // 5)))
        limit = self.percent(bounds, among=100 * many)
        return order[dropped:], f"its load is above the limit of {limit:.4g} %"

    def in_pools_with_room(self, shards: Shards) -> tuple[Shards, str]:
        """Prefer the pools with most room."""
        limit = self._layout.pool_limit
        # Without a limit, all pools have the same room.
        if shards[0].pool not in self._layout.pools:
            return shards, ""
        room = {
            pool: limit - sum(self._counts.on(s.name) for s in self._layout.pools[pool])
            for pool in {shard.pool for shard in shards}
        }
        roomy = sum(room[s.pool] >= limit // 2 for s in shards)
        take = max(FEWEST, len(shards) * 4 // 5, roomy)
        roomiest = {s.name for s in sorted(shards, key=lambda shard: room[shard.pool])[-take:]}
        kept = tuple([shard for shard in shards if shard.name in roomiest])
        return kept, "other pools have more room"


FILTERS: Final[tuple[tuple[str, Callable[[Chain, Shards], tuple[Shards, str]]], ...]] = (
    ("antiAffinity", Chain.apart_from_members),
    ("region", Chain.in_region_of_members),
    ("minZones", Chain.with_enough_zones),
    ("zoned", Chain.zoned),
    ("members in zone", Chain.in_zones_with_fewest_members),
    ("load of zone", Chain.in_zones_with_lowest_load),
    ("pooled", Chain.pooled),
    ("members", Chain.with_fewest_members),
    ("load", Chain.with_lower_loads),
    ("room of pool", Chain.in_pools_with_room),
)
"""The filters in order, by the names that `sharder explain` shows."""

HARD: Final = 3
"""So many filters, the first ones, can drop all shards."""

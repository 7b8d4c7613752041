"""How full the shards of a ring are.

Loads are exact, because equally full shards must compare equal.  Each load is an integer, in parts
that are the same for all shards of a ring.  Fractions would be ten times slower.
"""

from collections.abc import Mapping, Sequence
from math import lcm

import msgspec

from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counting.counts import Counts
from sharder.core.placement.strategy import Layout


class ActiveLoads(msgspec.Struct, frozen=True, gc=False):
    """The active loads of a ring's shards at one moment: 100 · objects / capacity."""

    percent: int
    """The number of parts that make one percent."""
    objects: Mapping[ShardName | None, int]
    capacities: Mapping[ShardName, int | None]
    parts: Mapping[int | None, int]
    """The parts that one object adds on a shard, by the capacity of the shard."""

    def of(self, shards: Sequence[Shard]) -> list[int]:
        """Return the load of each shard, in parts."""
        objects, capacities, parts = self.objects, self.capacities, self.parts
        if len(parts) == 1:  # the usual case: all have the same capacity, or none
            (part,) = parts.values()
            return [objects.get(shard.name, 0) * part for shard in shards]
        return [objects.get(s.name, 0) * parts[capacities[s.name]] for s in shards]

    def total(self, shards: Sequence[Shard]) -> int:
        """Return the sum of the loads of the shards, in parts."""
        objects, parts = self.objects, self.parts
        if len(parts) == 1:
            return sum([objects.get(s.name, 0) for s in shards]) * next(iter(parts.values()))
        return sum(self.of(shards))

    def shown(self, load: int, *, among: int = 1) -> str:
        """Return the mean of `among` loads with the sum `load`, for people."""
        return f"{load / (among * self.percent):.4g} %"


class Capacities:
    """How many objects each shard of a ring has room for."""

    __slots__ = ("_common", "_different", "_of")

    def __init__(self, layout: Layout) -> None:
        # A limit of 0 counts as 1: one object makes the shard full in both cases.
        self._of = {
            shard: limit if limit is None else max(limit, 1)
            for shard, limit in layout.declared.items()
        }
        self._different = set(self._of.values())
        self._common = lcm(*filter(None, self._different))

    def loads(self, counts: Counts) -> ActiveLoads:
        """Return the loads by these counts; without capacities, the shard with most is full."""
        objects, holding, known = counts.on_each, counts.holding, self._of.keys()
        largest = max((n for n, on in holding.items() if not known.isdisjoint(on)), default=1)
        percent = self._common * largest
        return ActiveLoads(
            percent=percent,
            objects=objects,
            capacities=self._of,
            parts={some: 100 * (percent // (some or largest)) for some in self._different},
        )

"""How full shards are, as exact numbers: what is equally full must compare equal.

Fractions would say the same, ten times slower: every load is an integer over one denominator that
all shards of a ring share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from sharder.names import ShardName
from sharder.placement.counts import Counts
from sharder.placement.shards import Shard
from sharder.placement.strategy import Layout


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

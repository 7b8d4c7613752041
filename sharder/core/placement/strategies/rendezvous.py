"""Rendezvous: each object goes to the shard that its key is drawn to most.

Against the ring: shares follow the weights exactly, and a shard that comes or goes moves its own
objects and no others.

BoundedLoad: rendezvous hashing under ceilings.

Source: the gNMIc operator (gnmic/operator, placement_blrh.go), after Mirrokni, Thorup and
Zadimoghaddam, "Consistent Hashing with Bounded Loads" (2016), with a ranking that mixes well.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import ClassVar

from typing_extensions import override

from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counts import Counts
from sharder.core.placement.demand import Demand
from sharder.core.placement.hashing import best
from sharder.core.placement.strategy import Choice, Layout, Objection, no_objection


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Weighted rendezvous hashing; follows."""

    layout: Layout
    sticks: ClassVar[bool] = False

    def share(self, shard: Shard, objects: int, total_weight: float) -> int | None:
        """Return None: a strategy that follows knows no ceilings."""
        return None

    def choose(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Choice:
        """Return the candidate with the highest score."""
        return Choice(best(self.layout.ranking, demand.key, candidates).name)

    def declines(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Objection:
        """Decline nothing: all candidates may have it."""
        return no_objection

    def remarks(
        self, demand: Demand, candidates: Sequence[Shard], counts: Counts
    ) -> dict[ShardName, str]:
        """Return the scores."""
        score = self.layout.ranking.score
        return {s.name: f"score {score(demand.key, s):.4g}" for s in candidates}


_ROUNDING = 1e-9
"""Weights are floats: a share that is an integer must not become one more."""


@dataclass(frozen=True, slots=True)
class BoundedLoad(Rendezvous):
    """The rendezvous order; ceilings, which are hard filters, do the rest."""

    sticks: ClassVar[bool] = True

    @override
    def share(self, shard: Shard, objects: int, total_weight: float) -> int | None:
        """Return ⌈objects · weight / Σ weights⌉, unless the ring has a ceiling of its own."""
        if self.layout.spec.per_shard_capacity is not None:
            return None
        return ceil(objects * shard.weight / total_weight - _ROUNDING)

"""Rendezvous: each object goes to the shard with the highest score for its key.

In contrast to consistent hashing, the shares of the shards match their weights exactly, and if a
shard joins or leaves, only its own objects move.

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
from sharder.core.placement.counting.counts import Counts
from sharder.core.placement.demand import Demand
from sharder.core.placement.strategy import Choice, Layout, Objection, no_objection


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Weighted rendezvous hashing; follows."""

    layout: Layout
    sticks: ClassVar[bool] = False
    groups: ClassVar[bool] = False

    def share(self, weight: float, objects: int, total_weight: float) -> int | None:
        """Return None: a strategy that follows has no ceilings."""
        return None

    def choose(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Choice:
        """Return the candidate with the highest score."""
        return Choice(self.layout.highest(demand.key, candidates).name)

    def declines(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Objection:
        """Decline no candidate."""
        return no_objection

    def remarks(
        self, demand: Demand, candidates: Sequence[Shard], counts: Counts
    ) -> dict[ShardName, str]:
        """Return the scores."""
        score = self.layout.ranking.score
        return {s.name: f"score {score(demand.key, s):.4g}" for s in candidates}


_ROUNDING = 1e-9
"""Tolerance for weights, which are floats: an integer share must not be rounded up by one."""


@dataclass(frozen=True, slots=True)
class BoundedLoad(Rendezvous):
    """Rendezvous hashing; ceilings, which are hard filters, limit the shards."""

    sticks: ClassVar[bool] = True

    @override
    def share(self, weight: float, objects: int, total_weight: float) -> int | None:
        """Return ⌈objects · weight / Σ weights⌉, None if the ring declares a ceiling."""
        if self.layout.spec.per_shard_capacity is not None:
            return None
        return ceil(objects * weight / total_weight - _ROUNDING)

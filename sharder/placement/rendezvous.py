"""Rendezvous: each object goes to the shard that its key is drawn to most.

Against the ring: shares follow the weights exactly, and a shard that comes or goes moves its own
objects and no others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from sharder.names import ShardName
from sharder.placement.counts import Counts
from sharder.placement.demand import Demand
from sharder.placement.ranking import best
from sharder.placement.shards import Shard
from sharder.placement.strategy import Choice, Layout, Objection, no_objection


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

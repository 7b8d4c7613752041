"""The strategies that hash the key of an object: ConsistentHash, Rendezvous and BoundedLoad.

ConsistentHash chooses the first shard on the reference's ring that can have the object, Rendezvous
the shard with the highest score for its key.  In contrast to consistent hashing, the shares of the
shards match their weights exactly, and if a shard joins or leaves, only its own objects move.
BoundedLoad is rendezvous hashing under ceilings.

Source: the gNMIc operator (gnmic/operator, placement_blrh.go), after Mirrokni, Thorup and
Zadimoghaddam, "Consistent Hashing with Bounded Loads" (2016), with a ranking that mixes well.
"""

from collections.abc import Sequence
from itertools import islice
from math import ceil
from typing import ClassVar

from typing_extensions import override

from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counting.counts import Counts
from sharder.core.placement.demand import Demand
from sharder.core.placement.hash_ring import HashRing
from sharder.core.placement.strategy import Choice, Layout, Strategy


class ConsistentHash(Strategy):
    """Consistent hashing over the available shards; follows."""

    __slots__ = ("ring",)
    sticks: ClassVar[bool] = False

    def __init__(self, layout: Layout, known: HashRing | None = None) -> None:
        """Use a known ring if it has the same shards, or build one."""
        super().__init__(layout)
        names = tuple(shard.name for shard in layout.available)
        self.ring: HashRing = (known or HashRing(())).of(names)

    @override
    def choose(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Choice:
        """Return the first candidate on the ring from the key's hash on."""
        if len(candidates) == len(self.ring.members):
            return Choice(self.ring.owner(demand.key))
        names = {shard.name for shard in candidates}
        return Choice(next(shard for shard in self.ring.walk(demand.key) if shard in names))

    @override
    def remarks(
        self, demand: Demand, candidates: Sequence[Shard], counts: Counts
    ) -> dict[ShardName, str]:
        """Return the order of the shards on the ring from the key's hash on."""
        order = islice(self.ring.walk(demand.key), len(self.ring.members))
        places = {shard: place for place, shard in enumerate(order, start=1)}
        return {s.name: f"place {places[s.name]} clockwise from the key" for s in candidates}


class Rendezvous(Strategy):
    """Weighted rendezvous hashing; follows."""

    __slots__ = ()
    sticks: ClassVar[bool] = False

    @override
    def choose(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Choice:
        """Return the candidate with the highest score."""
        return Choice(self.layout.highest(demand.key, candidates).name)

    @override
    def remarks(
        self, demand: Demand, candidates: Sequence[Shard], counts: Counts
    ) -> dict[ShardName, str]:
        """Return the scores."""
        score = self.layout.ranking.score
        return {s.name: f"score {score(demand.key, s):.4g}" for s in candidates}


_ROUNDING = 1e-9
"""Tolerance for weights, which are floats: an integer share must not be rounded up by one."""


class BoundedLoad(Rendezvous):
    """Rendezvous hashing; ceilings, which are hard filters, limit the shards."""

    __slots__ = ()
    sticks: ClassVar[bool] = True

    @override
    def share(self, weight: float, objects: int) -> int | None:
        """Return ⌈objects · weight / Σ weights⌉, None if the ring declares a ceiling."""
        if self.layout.spec.per_shard_capacity is not None:
            return None
        return ceil(objects * weight / self.layout.weight - _ROUNDING)

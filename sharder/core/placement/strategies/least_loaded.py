"""LeastLoaded: a chain of filters, then a weighted choice that prefers emptier shards.

Source: the gear placement of OpenShift v2 (openshift/origin-server, rpc_find_all_available and
select_best_fit_node_impl), where gears are objects, nodes are shards and districts are pools.
Three of its faults are fixed here: zones are compared by their mean load and not by the sum, zones
without a candidate are not compared, and a filter that prefers some shards keeps all of them and
not only the last one.  Its random number comes from the object's key here, so that all replicas
make the same choice.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from typing_extensions import override
from xxhash import xxh3_64_intdigest

from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counting.counts import Counts
from sharder.core.placement.demand import Demand
from sharder.core.placement.strategies.active_loads import Capacities
from sharder.core.placement.strategies.group_members import group_members_of
from sharder.core.placement.strategies.least_loaded_filters import FilterChain
from sharder.core.placement.strategy import Choice, Layout, Objection, Strategy

_SEED: Final = 0x67656172
"""The seed ("gear") makes the draw independent of rankings, which hash the key without a seed."""


class LeastLoaded(Strategy):
    """Gear placement; sticks."""

    __slots__ = ("_capacities", "_effective")

    def __init__(self, layout: Layout) -> None:
        """Find the filters that can drop a shard of the layout."""
        super().__init__(layout)
        self._capacities = Capacities(layout)
        self._effective = FilterChain.effective(layout)

    @override
    def choose(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Choice:
        """Return one of the shards that the last filter keeps, or why a filter keeps none."""
        last = self._chain(demand, counts).last(candidates, self._effective)
        many = len(last.kept)
        if not many:
            return Choice(None, last.objection)
        if many == 1:
            return Choice(last.kept[0].name)
        position = self.draw(demand, weight_of_first(many, many))
        return Choice(last.kept[place_at(position, many)].name)

    def draw(self, demand: Demand, total: int) -> int:
        """Return a number below `total`, uniformly distributed, that depends only on the key."""
        return xxh3_64_intdigest(demand.key.encode(), seed=_SEED) * total >> 64

    @override
    def declines(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Objection:
        """Decline the shards that a hard filter drops."""
        return self._chain(demand, counts).objections(candidates, self._effective)

    @override
    def remarks(
        self, demand: Demand, candidates: Sequence[Shard], counts: Counts
    ) -> dict[ShardName, str]:
        """Return each shard's load, and the filter that drops it or its weight in the draw."""
        chain = self._chain(demand, counts)
        results = chain.results(candidates)
        fates: dict[ShardName, str] = {}
        kept = [tuple(candidates), *(each.kept for each in results)]
        for each, (before, after) in zip(results, pairwise(kept), strict=True):
            dropped = (shard for shard in before if shard not in after)
            fates |= {s.name: f"dropped by {each.name}: {each.objection}" for s in dropped}
        many = len(kept[-1])
        for shard, weight in zip(kept[-1], weights(many), strict=True):
            fates[shard.name] = f"in the draw with a weight of {weight} of {sum(weights(many))}"
        return {s.name: f"{chain.remark_on(s)}; {fates[s.name]}" for s in candidates}

    def _chain(self, demand: Demand, counts: Counts) -> FilterChain:
        members = group_members_of(demand, self.layout, counts)
        return FilterChain(self.layout, counts, members, self._capacities)


def weights(many: int) -> range:
    """Return the weights of `many` places in a list.

    The first place has half the number of places, rounded up, and each further place has one more.
    So the last one is chosen up to three times as often as the first.
    """
    first = (many + 1) // 2
    return range(first, first + many)


def weight_of_first(some: int, many: int) -> int:
    """Return the sum of the weights of the first `some` of `many` places."""
    return some * weights(many).start + some * (some - 1) // 2


def place_at(position: int, many: int) -> int:
    """Return the place, of `many`, that a number below the sum of their weights selects."""
    places = range(1, many + 1)
    return bisect_right(places, position, key=lambda some: weight_of_first(some, many))

"""Strategies as somebody else may install them beside the sharder."""

from collections.abc import Sequence

from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counts import Counts
from sharder.core.placement.demand import Demand


def fullest_first(demand: Demand, candidates: Sequence[Shard], counts: Counts) -> ShardName | None:
    """Return the shard with the most objects, so that the others may be scaled away."""
    return max(candidates, key=lambda shard: (counts.on(shard.name), shard.name)).name


def nonsense(demand: Demand, candidates: Sequence[Shard], counts: Counts) -> ShardName | None:
    """Return a name that no shard has."""
    return ShardName("nowhere")

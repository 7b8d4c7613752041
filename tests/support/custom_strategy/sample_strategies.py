"""Strategies that a user could install beside the sharder."""

from collections.abc import Sequence

from sharder.strategy import Counts, Demand, Shard, ShardName


def fullest_first(demand: Demand, candidates: Sequence[Shard], counts: Counts) -> ShardName | None:
    """Return the shard with the most objects, so that the others may be scaled away."""
    return max(candidates, key=lambda shard: (counts.on(shard.name), shard.name)).name


def nonsense(demand: Demand, candidates: Sequence[Shard], counts: Counts) -> ShardName | None:
    """Return a name that no shard has."""
    return ShardName("nowhere")

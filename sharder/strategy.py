"""The stable import path for custom strategies, which users install with the sharder.

A function of the entry point group `sharder.placement` takes a `Demand`, the candidates as
`Shard` and the `Counts` of the ring, and returns the `ShardName` of a candidate or None
(docs/placement.md, "Custom").  Modules below `sharder.core` can move between releases; these names
stay.
"""

from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counts import Counts
from sharder.core.placement.demand import Demand

__all__ = ["Counts", "Demand", "Shard", "ShardName"]

"""The stable import path for strategies that users install beside the sharder.

A function of the entry point group `sharder.placement` takes a `Demand`, the candidates as
`Shard` and the `Counts` of the ring, and returns the `ShardName` of a candidate or None
(docs/placement.md, "Custom").  Modules below `sharder.core` can move between releases; the names
here stay.
"""

from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counts import Counts
from sharder.core.placement.demand import Demand

__all__ = ["Counts", "Demand", "Shard", "ShardName"]

"""Which objects move because the load of the shards has changed (docs/rebalancing.md).

Everything here is a function over values, as in `sharder.placement`.
Source: Koordinator's proposal "Node Resource Balance Rescheduling" (koordinator-sh/koordinator
#2341); where we differ from it the reason stands beside the code.
"""

"""Which objects move to balance the load of the shards (docs/rebalancing.md).

Source: Koordinator's proposal "Node Resource Balance Rescheduling" (koordinator-sh/koordinator
#2341).  A comment in the code gives the reason for each difference.
"""

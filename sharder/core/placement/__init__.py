"""Which shard owns an object: hard filters, then a strategy's ranking (docs/placement.md).

The same input has the same result on every replica, whatever its order.
"""

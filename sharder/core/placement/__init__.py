"""Which shard owns an object: hard filters, then the choice of a strategy (docs/placement.md).

The same input has the same result on every replica, and its order does not matter.
"""

"""Which shard owns an object: hard filters, then a strategy's ranking (docs/placement.md).

Everything here is a function over values: no clock, no I/O, no randomness that is not passed in.
The same input has the same answer on every replica, in whatever order it comes.
"""

"""A shard: its Lease, its settings, the checks before it works, its probes and metrics.

What runs in an author's process, here, below and in `sharder.sdk`, logs messages that repeat their
fields, because the author's log format might not show fields.
"""

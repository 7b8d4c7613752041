"""A shard: its Lease, its settings, the checks before it works, its probes and metrics."""

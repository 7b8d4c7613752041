"""Settings, and the checks before a shard takes its Lease."""

"""The observability of a shard: metrics, probes, and warnings about a blocked event loop."""

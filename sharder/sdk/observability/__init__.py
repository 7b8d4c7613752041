"""What a shard shows of its work: metrics, probes, and a blocked event loop."""

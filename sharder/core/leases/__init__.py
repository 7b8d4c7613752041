"""Which Leases make shards, and which of these shards are alive."""

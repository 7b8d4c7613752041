"""The fence of a ring: the writes of shards that the API server rejects, and the proof of it."""

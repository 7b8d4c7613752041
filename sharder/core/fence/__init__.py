"""The fence of a ring: what the API server refuses to shards, and the proof that it does."""

"""Make a controller that nobody changed a shard: it talks to the API server through this proxy."""

"""A shard's objects and their children, as far as its watches have shown them."""

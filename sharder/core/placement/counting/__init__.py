"""How many of a ring's objects are on each shard and in each group, object by object."""

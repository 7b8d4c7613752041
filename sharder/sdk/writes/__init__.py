"""The writes of a shard: children, conditions, Events, and the record of these writes."""

"""What a shard writes: children, conditions, Events, and the record of its writes."""

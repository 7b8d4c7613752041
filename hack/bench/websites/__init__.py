"""Websites, each with four children, on shards of a real operator: the load of the row `load`."""

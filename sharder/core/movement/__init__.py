"""Which step one object needs next, and how many steps may be under way."""

"""Which step one object needs next, and how many steps can be in progress."""

"""Which step an object needs next, and how many steps can be in progress at a time."""

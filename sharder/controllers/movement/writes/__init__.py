"""Every write to an object: guarded, within the budget, and after its back-off."""

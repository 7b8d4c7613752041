"""Write to objects: guarded, within the budget, and after a back-off."""

"""Move single objects between two passes: released, unassigned, or new ones."""

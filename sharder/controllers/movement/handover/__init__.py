"""Single objects between two passes: released, unassigned, or new."""

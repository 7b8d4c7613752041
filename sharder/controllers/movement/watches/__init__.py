"""The watches of unassigned and draining objects."""

"""Move objects: in passes over whole rings, and one by one between two passes."""

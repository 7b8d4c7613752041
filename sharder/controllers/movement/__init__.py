"""Everything that moves objects: passes over whole rings, and single objects in between."""

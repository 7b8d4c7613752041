"""The status of a ControllerRing."""

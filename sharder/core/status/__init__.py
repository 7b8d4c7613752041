"""What a ControllerRing's status says."""

"""A ring at one moment, built from its ControllerRing and its Leases."""

"""What a ring looks like at one moment, built from its resource and its Leases."""

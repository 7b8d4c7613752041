"""What developing sharder needs, and the product does not: control plane, demo, checks."""

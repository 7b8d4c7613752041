"""What `sharder check` concludes from what it has read of a cluster."""

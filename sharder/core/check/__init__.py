"""The findings of `sharder check`, from the facts that it has read from a cluster."""

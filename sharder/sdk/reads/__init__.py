"""What a shard knows of its objects and their children, and how far that has come."""

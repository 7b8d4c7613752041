"""Running: watches, queues, heartbeats and tasks that are kept alive."""

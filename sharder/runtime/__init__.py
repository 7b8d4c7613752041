"""Watches, queues, Leases and supervised tasks."""

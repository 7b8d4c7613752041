"""Whole replicas in memory on virtual time: stories of what the API shows afterwards."""

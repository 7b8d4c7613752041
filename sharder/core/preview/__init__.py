"""Counts, plans and dumps of rings for the command line, by the decisions of the service."""

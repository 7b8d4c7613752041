"""Counts, plans and dumps of rings for the command line, with the decisions of the service."""

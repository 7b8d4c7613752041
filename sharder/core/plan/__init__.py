"""Plans of rings for the command line, from a cluster or a dump, as the service decides."""

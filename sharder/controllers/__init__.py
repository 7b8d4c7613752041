"""The controllers: read the cluster, decide by the core, write through ports."""

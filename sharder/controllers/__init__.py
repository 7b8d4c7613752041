"""The controllers read the cluster, decide with the core, and write through ports."""

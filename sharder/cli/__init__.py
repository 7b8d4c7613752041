"""The program `sharder`, also installed as the kubectl plugin `kubectl shard`."""

from sharder.cli.app import main

__all__ = ["main"]

"""What is taken for granted of an object until the watch shows it, or something else."""

from typing import NamedTuple

from sharder.names import ShardName
from sharder.placement.entries import Entry


class Assumption(NamedTuple):
    """How an object counts meanwhile."""

    entry: Entry
    before: ShardName | None
    """The owner that was known when it was assumed."""
    passed: frozenset[Entry]
    """What was assumed before it and is not shown yet: no news when it is."""
    lives: int
    """How often it may still be let grow older."""

    def is_settled_by(self, shown: Entry | None) -> bool:
        """Tell whether what the watch shows is news beside the assumption, or confirms it.

        That its old shard has let go is none where it is to be given to another.
        """
        if shown is None or shown == self.entry:
            return True
        if shown.shard is None and self.entry.shard != self.before:
            return False
        return shown.shard != self.before and shown not in self.passed

"""What is taken for granted of an object until the watch shows it, or something else."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple

from sharder.core.names import ShardName
from sharder.core.placement.entries import Entry

LIVES: Final = 30
"""How often an assumption grows older at most, for the watch may be late or broken."""

BRIEF_LIVES: Final = 3
"""The same for a request that the API server may have refused since, while the watch is live: a
create reaches the watch within a second, one that fails never does."""

MAX_BRIEF: Final = 600
"""Requests that are assumed at a time, the latest ones: as many as an API server has in flight by
default (--max-requests-inflight and --max-mutating-requests-inflight, 400 + 200)."""


class Assumption(NamedTuple):
    """How an object counts meanwhile."""

    entry: Entry
    before: ShardName | None
    """The owner that was known when it was assumed."""
    passed: frozenset[Entry]
    """What was assumed before it and is not shown yet: no news when it is."""
    brief: bool = False
    """Whether it came from a request that others may refuse, not from a write of our own."""
    age: int = 0
    """How often it has grown older."""

    def is_settled_by(self, shown: Entry | None) -> bool:
        """Return whether what the watch shows is news beside the assumption, or confirms it.

        That its old shard has let go is none where it is to be given to another.
        """
        if shown is None or shown == self.entry:
            return True
        if shown.shard is None and self.entry.shard != self.before:
            return False
        return shown.shard != self.before and shown not in self.passed


class Assumptions:
    """What is assumed, by identity; of what is brief no more than the latest."""

    def __init__(self) -> None:
        self._all: dict[int, Assumption] = {}
        self._brief = OrderedDict[int, None]()
        """Those of them that are brief, the oldest first."""

    def find(self, identity: int) -> Assumption | None:
        """Return what is assumed of an object, None if nothing is."""
        return self._all.get(identity)

    def add(self, identity: int, assumed: Assumption) -> int | None:
        """Assume something else of an object; return the one that is too many then, if any."""
        self._brief.pop(identity, None)
        self._all[identity] = assumed
        if assumed.brief:
            self._brief[identity] = None
        return next(iter(self._brief)) if len(self._brief) > MAX_BRIEF else None

    def drop(self, identity: int) -> bool:
        """Assume nothing of an object any more; return whether anything was."""
        self._brief.pop(identity, None)
        return self._all.pop(identity, None) is not None

    def grow_older(self, *, is_live: bool) -> Iterator[int]:
        """Let all grow older and yield those that are too old, to be dropped.

        `is_live` tells whether the watch has shown anything since the last time.
        """
        for identity, assumed in list(self._all.items()):
            if assumed.age >= (BRIEF_LIVES if assumed.brief and is_live else LIVES):
                yield identity
            else:
                self._all[identity] = assumed._replace(age=assumed.age + 1)

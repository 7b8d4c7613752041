"""Assumptions about objects, until the watch confirms or refutes them."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from sharder.core.names import ShardName
from sharder.core.placement.counting.entries import Entry

LIVES: Final = 30
"""How many times an assumption ages before it is forgotten, as the watch can be late or broken."""

BRIEF_LIVES: Final = 3
"""The same for a request that the API server can have rejected since, while the watch is live: a
create reaches the watch within a second, a failed one never does."""

MAX_BRIEF: Final = 600
"""Requests that are assumed at a time, the latest ones: as many as an API server handles at a time
by default (--max-requests-inflight and --max-mutating-requests-inflight, 400 + 200)."""


class Assumption(msgspec.Struct, frozen=True, gc=False):
    """How an object counts until the watch shows it."""

    entry: Entry
    before: ShardName | None
    """The known owner when the assumption was made."""
    passed: frozenset[Entry]
    """Earlier assumptions that are not shown yet: they are not news when they are."""
    brief: bool = False
    """Whether it is from a request that can still be rejected, and not from a write of ours."""
    age: int = 0
    """How many times it has aged."""

    def is_settled_by(self, shown: Entry | None) -> bool:
        """Return whether the watch confirms the assumption, or shows something newer.

        That the old shard has released the object is not newer than its assignment to another.
        """
        if shown is None or shown == self.entry:
            return True
        if shown.shard is None and self.entry.shard != self.before:
            return False
        return shown.shard != self.before and shown not in self.passed


class Assumptions:
    """Assumptions by identity; of brief ones only the latest."""

    def __init__(self) -> None:
        self._all: dict[int, Assumption] = {}
        self._brief = OrderedDict[int, None]()
        """The brief ones, the oldest first."""

    def find(self, identity: int) -> Assumption | None:
        """Return the assumption about an object, None if there is none."""
        return self._all.get(identity)

    def add(self, identity: int, assumed: Assumption) -> int | None:
        """Replace the assumption about an object; return the object to forget for it, if any."""
        self._brief.pop(identity, None)
        self._all[identity] = assumed
        if assumed.brief:
            self._brief[identity] = None
        return next(iter(self._brief)) if len(self._brief) > MAX_BRIEF else None

    def drop(self, identity: int) -> bool:
        """Drop the assumption about an object; return whether there was one."""
        self._brief.pop(identity, None)
        return self._all.pop(identity, None) is not None

    def grow_older(self, *, is_live: bool) -> Iterator[int]:
        """Age all assumptions, and yield the objects whose one is too old.

        `is_live` is whether the watch has shown anything since the last time.
        """
        for identity, assumed in list(self._all.items()):
            if assumed.age >= (BRIEF_LIVES if assumed.brief and is_live else LIVES):
                yield identity
            else:
                self._all[identity] = replace(assumed, age=assumed.age + 1)

"""Assumptions about objects, which count until the watch confirms or refutes them."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from sharder.core.names import ShardName
from sharder.core.placement.counting.entries import Entry

LIVES: Final = 30
"""How many times an assumption ages before it is forgotten: the watch can be late or broken."""

BRIEF_LIVES: Final = 3
"""The same for a request that the API server might have rejected, while the watch shows changes: a
create appears in the watch within a second, a failed one never does."""

MAX_BRIEF: Final = 600
"""Maximum assumptions from requests; only the latest are kept.  An API server handles as many
requests at a time by default (--max-requests-inflight and --max-mutating-requests-inflight,
400 + 200)."""


class Assumption(msgspec.Struct, frozen=True, gc=False):
    """How an object counts until the watch shows it."""

    entry: Entry
    before: ShardName | None
    """The known owner when the assumption was made."""
    passed: frozenset[Entry]
    """Earlier assumptions that the watch has not shown yet: they are not news when it does."""
    brief: bool = False
    """Whether it comes from a request that can still be rejected, not from our own write."""
    age: int = 0
    """How many times it has aged."""

    def is_settled_by(self, shown: Entry | None) -> bool:
        """Return whether the watch confirms the assumption, or shows something newer.

        If the watch shows that the old shard has released the object, that is not newer than an
        assignment to another shard.
        """
        if shown is None or shown == self.entry:
            return True
        if shown.shard is None and self.entry.shard != self.before:
            return False
        return shown.shard != self.before and shown not in self.passed


class Assumptions:
    """Assumptions by identity; only the latest brief ones are kept."""

    def __init__(self) -> None:
        self._all: dict[int, Assumption] = {}
        self._brief = OrderedDict[int, None]()
        """The objects with a brief assumption, the oldest first."""

    def __iter__(self) -> Iterator[tuple[int, Assumption]]:
        """Yield each object with the assumption about it."""
        return iter(self._all.items())

    def find(self, identity: int) -> Assumption | None:
        """Return the assumption about an object, None if there is none."""
        return self._all.get(identity)

    def add(self, identity: int, assumed: Assumption) -> int | None:
        """Replace the assumption about an object.

        Returns:
            Another object that the caller has to forget because there are too many, else None.
        """
        self._brief.pop(identity, None)
        self._all[identity] = assumed
        if assumed.brief:
            self._brief[identity] = None
        return next(iter(self._brief)) if len(self._brief) > MAX_BRIEF else None

    def drop(self, identity: int) -> bool:
        """Drop the assumption about an object, and return whether there was one."""
        self._brief.pop(identity, None)
        return self._all.pop(identity, None) is not None

    def grow_older(self, *, is_live: bool) -> Iterator[int]:
        """Age all assumptions, and yield the objects whose assumption is too old.

        `is_live` is whether the watch has shown anything since the last call.
        """
        for identity, assumed in list(self._all.items()):
            if assumed.age >= (BRIEF_LIVES if assumed.brief and is_live else LIVES):
                yield identity
            else:
                self._all[identity] = replace(assumed, age=assumed.age + 1)

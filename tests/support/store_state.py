"""What all views of one collection in memory share: objects, their history, and faults."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from sharder.core.errors import ApiError
from sharder.core.names import ObjectRef
from tests.support.rules import Tree, merged


class Versions:
    """The counter of resource versions, shared by all stores of one cluster."""

    def __init__(self) -> None:
        self.now = 100

    def next(self) -> int:
        """Return a new version."""
        self.now += 1
        return self.now


@dataclass(frozen=True, slots=True)
class Change:
    """A write: the object before and after it, None if it did not exist."""

    version: int
    before: Tree | None
    after: Tree | None


def _pass() -> None:
    """Let a request or an answer through."""


@dataclass(slots=True)
class State:
    """The state that all views of one collection share."""

    versions: Versions
    objects: dict[ObjectRef, Tree] = field(default_factory=dict)
    history: list[Change] = field(default_factory=list)
    oldest: int = 0
    hang_ups: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)
    faults: deque[ApiError] = field(default_factory=deque)
    losses: deque[ApiError] = field(default_factory=deque)
    request: Callable[[], None] = _pass
    answer: Callable[[], None] = _pass

    def commit(self, ref: ObjectRef, after: Tree | None) -> Tree:
        """Store the object, or remove it if `after` is None, and notify the watches."""
        before = self.objects.pop(ref, None)
        version = self.versions.next()
        stamped = merged(after or before, {"metadata": {"resourceVersion": str(version)}})
        if after is not None:
            self.objects[ref] = stamped
        self.history.append(Change(version, before, stamped if after is not None else None))
        self.notify()
        self.answer()
        if self.losses:
            raise self.losses.popleft()
        return stamped

    def notify(self) -> None:
        """Wake the watches."""
        news, self.news = self.news, asyncio.Event()
        news.set()

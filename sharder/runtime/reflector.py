"""Reflect a collection: list it, watch from there, and relist or resume after errors.

`after` is the state machine and `follow` the loop around it.  `Polled` lists a collection
repeatedly where there is no right to watch it.

Source:
    kube-runtime `watcher.rs` for the states; client-go v0.36.3 `tools/cache/reflector.go` for
    the delays (lines 58-67: from 0.8 s, forgotten after two minutes; line 1303: a watch shorter
    than a second counts as a failure).  Its cap of 30 s is too long here: while a watch is
    broken nothing moves, and every shard asks for its Lease each 2 s anyway.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from sharder.core.api.meta import ObjectMeta
from sharder.core.errors import ApiError, Expired, Forbidden
from sharder.ports import Bookmark, Changed, Listed, Removed, Watchable, WatchEvent
from sharder.runtime.backoff import Backoff, Rng, failures_after
from sharder.runtime.clock import Clock
from sharder.runtime.error_log import ErrorLog, OnError, ignore

BACKOFF: Final = Backoff(base=0.8, cap=5.0)
"""Of lists and watches.  client-go's begins the same and goes up to 30 s; we place by what we see.
"""
_SHORT_SECONDS: Final = 1.0
"""A watch that ends sooner counts as failed, as in client-go's reflector."""

_log = logging.getLogger(__name__)


class Versioned(Protocol):
    """An object whose resource version is its place in the stream."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""
        ...


E = TypeVar("E")
V = TypeVar("V", bound=Versioned)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place in the stream; without a version the next action is a list."""

    version: str = ""
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    """The server closed the watch without an error after `lasted` seconds."""

    lasted: float


@dataclass(frozen=True, slots=True)
class Failed:
    """A list or a watch failed `lasted` seconds after its start."""

    error: ApiError
    lasted: float


Outcome: TypeAlias = Listed[V] | WatchEvent[V] | Ended | Failed


def after(place: Place, outcome: Outcome[V]) -> Place:
    """Return the place after `outcome`.

    Only an expired version leads to a new list; after everything else the watch resumes, so no
    event is repeated.  Only time resets the failures: a server that accepts a watch and breaks it
    at once would otherwise be called without end.
    """
    match outcome:
        case Listed(_, version) | Bookmark(version):
            return Place(version=version, failures=place.failures)
        case Changed(obj) | Removed(obj):
            return Place(version=obj.metadata.resource_version, failures=place.failures)
        case Ended(lasted):
            return replace(place, failures=place.failures + 1 if lasted < _SHORT_SECONDS else 0)
        case Failed(error, lasted):
            return Place(
                version="" if isinstance(error, Expired) else place.version,
                failures=failures_after(place.failures, lasted),
            )


def _skip(_version: str) -> None:
    """Ignore bookmarks."""


async def follow(
    source: Watchable[V],
    *,
    doing: str,
    clock: Clock,
    rng: Rng,
    on_error: OnError = ignore,
    keep: Callable[[V], bool] | None = None,
    on_bookmark: Callable[[str], None] = _skip,
) -> AsyncGenerator[Listed[V] | Changed[V] | Removed[V], None]:
    """Yield the state of the collection and then its changes, for ever.

    `Listed` comes first, and again after every relist: it replaces all that was known.  Errors
    never end the stream: they are logged under `doing` when they change, passed to `on_error`, and
    retried after a back-off.  Close the generator (`contextlib.aclosing`) to end the request at
    once when leaving the loop early.

    With `keep` a list contains only objects for which it returns True; changes are always yielded.
    `on_bookmark` is called with each version up to which everything was yielded.
    """
    error_log = ErrorLog(doing, on_error)
    place = Place()
    while True:
        began = clock.monotonic()
        ending: Ended | Failed
        try:
            if not place.version:
                listed = await source.list(keep)
                place = after(place, listed)
                error_log.over()
                yield listed
                del listed  # the watch can last for days
                began = clock.monotonic()
            async with closing(source.watch(place.version)) as events:
                async for event in events:
                    place = after(place, event)
                    error_log.over()
                    if isinstance(event, Bookmark):
                        on_bookmark(event.resource_version)
                    else:
                        yield event
            ending = Ended(clock.monotonic() - began)
        except Expired as error:
            _log.info("watch expired (410), relisting", extra={"why": doing, "error": str(error)})
            error_log.missed(error)
            ending = Failed(error, clock.monotonic() - began)
        except ApiError as error:
            error_log.failed(error)
            ending = Failed(error, clock.monotonic() - began)
        place = after(place, ending)
        await clock.sleep(BACKOFF.delay(place.failures, rng))


@asynccontextmanager
async def closing(events: AsyncIterator[E]) -> AsyncGenerator[AsyncIterator[E], None]:
    """Close the request if a watch is left early; the port promises an iterator only."""
    try:
        yield events
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()


POLL_SECONDS = 30.0
"""Between two lists (docs/protocol.md, "Fewer rights")."""

HURRY_SECONDS = 1.1
"""The same while changes are expected; longer than a watch that counts as failed."""

T = TypeVar("T")


class Polled(Generic[T]):
    """The collection itself while it can be watched, otherwise repeated lists.

    The watch is tried before each list, so that it starts as soon as the right is granted.
    """

    def __init__(
        self,
        inner: Watchable[T],
        *,
        clock: Clock,
        on_access: Callable[[Forbidden | None], None],
        is_expecting: Callable[[], bool] = lambda: False,
    ) -> None:
        """Wire it.

        Args:
            inner: The collection.
            clock: To wait by.
            on_access: Called with each refusal to watch, and with None with each event of a watch.
            is_expecting: Whether something is expected, so that the next list is not delayed.
        """
        self._is_expecting = is_expecting
        self._inner = inner
        self._clock = clock
        self._on_access = on_access

    async def list(self, keep: Callable[[T], bool] | None = None) -> Listed[T]:
        """Return all objects, or those for which `keep` holds."""
        return await self._inner.list(keep)

    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield events; without the right to watch, wait and request a new list."""
        try:
            async with closing(self._inner.watch(resource_version)) as events:
                async for event in events:
                    self._on_access(None)
                    yield event
        except Forbidden as error:
            self._on_access(error)
            await self._wait()
            yield Bookmark("")

    async def _wait(self) -> None:
        until = self._clock.monotonic() + POLL_SECONDS
        while (left := until - self._clock.monotonic()) > 0:
            await self._clock.sleep(min(HURRY_SECONDS, left))
            if self._is_expecting():
                return

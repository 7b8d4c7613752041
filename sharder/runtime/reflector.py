"""Reflect a collection: list it, watch from there, and relist or resume after errors.

`Polled` lists a collection repeatedly if the right to watch it is missing.

Source:
    kube-runtime `watcher.rs` for the states; client-go v0.36.3 `tools/cache/reflector.go` for
    the delays (lines 58-67: from 0.8 s, forgotten after two minutes; line 1303: a watch shorter
    than a second counts as a failure).  The cap of client-go, 30 s, is too long here: while a
    watch is broken nothing moves, and every shard renews its Lease every 2 s anyway.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from math import inf
from typing import Final, Generic, Protocol, TypeVar

from sharder.core.api.meta import ObjectMeta
from sharder.core.errors import ApiError, Expired, Forbidden, NotFound, Rewound
from sharder.ports import Bookmark, Event, Listed, Watchable, WatchEvent
from sharder.runtime.backoff import Backoff, Rng, failures_after
from sharder.runtime.clock import Clock
from sharder.runtime.error_log import ErrorLog, OnError, ignore

BACKOFF: Final = Backoff(base=0.8, cap=5.0)
"""The delay after a failed list or watch.  client-go has the same base and a cap of 30 s; the cap
is lower here, because placement depends on the watches."""
_SHORT_SECONDS: Final = 1.0
"""A watch that ends sooner counts as failed, as in client-go's reflector."""

_log = logging.getLogger(__name__)


class Versioned(Protocol):
    """An object whose resource version is its place in the stream."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""
        ...


V = TypeVar("V", bound=Versioned)


async def _bear(_error: ApiError) -> None:
    """Go on after an error."""


async def follow(
    source: Watchable[V],
    *,
    doing: str,
    clock: Clock,
    rng: Rng,
    on_error: OnError = ignore,
    on_failure: Callable[[ApiError], Awaitable[None]] = _bear,
    keep: Callable[[V], bool] | None = None,
    on_bookmark: Callable[[str], None] = lambda _version: None,
) -> AsyncGenerator[Event[V], None]:
    """Yield the state of the collection and then its changes, forever.

    `Listed` comes first, and again after every relist: it replaces all known objects.  Errors
    never end the stream: they are logged under `doing` when they change, passed to `on_error` and
    `on_failure`, which can end it, and retried after a back-off.  If you leave the loop early,
    close the generator (`contextlib.aclosing`) to end the request at once.

    With `keep`, a list contains only objects for which `keep` returns True; changes are always
    yielded.  `on_bookmark` is called with the version of each bookmark: all events up to it have
    been yielded.

    Only after an expired version comes a new list, and where the collection is gone, because
    another one can take its place; after any other error the watch resumes, so no event is
    repeated.  Only time resets the back-off: otherwise a server that accepts each watch and breaks
    it at once would be called without a pause.
    """
    error_log = ErrorLog(doing, on_error)
    version, failures = "", 0
    while True:
        began = clock.monotonic()
        try:
            if not version:
                listed = await source.list(keep)
                version = listed.resource_version
                error_log.over()
                yield listed
                del listed  # the watch can last for days
                began = clock.monotonic()
            async with aclosing(source.watch(version)) as events:
                async for event in events:
                    error_log.over()
                    if isinstance(event, Bookmark):
                        version = event.resource_version
                        on_bookmark(version)
                    else:
                        version = event.obj.metadata.resource_version
                        yield event
            # Without a version, the watch has ended in order to request a list.
            is_short = bool(version) and clock.monotonic() - began < _SHORT_SECONDS
            failures = failures + 1 if is_short else 0
        except ApiError as error:
            _log_error(error_log, doing, error)
            await on_failure(error)
            version = "" if isinstance(error, Expired | NotFound) else version
            failures = failures_after(failures, clock.monotonic() - began)
        await clock.sleep(BACKOFF.delay(failures, rng))


def _log_error(error_log: ErrorLog, doing: str, error: ApiError) -> None:
    if not isinstance(error, Expired):
        error_log.failed(error)
        return
    fields = {"why": doing, "error": str(error)}
    if isinstance(error, Rewound):
        _log.warning("the API server went back in time, relisting: %s", error, extra=fields)
    else:
        _log.info("watch expired (410), relisting", extra=fields)
    error_log.missed(error)


POLL_SECONDS = 30.0
"""Seconds between two lists, and two attempts to watch (docs/protocol.md, "Fewer rights")."""

HURRY_SECONDS = 0.5
"""Seconds between two lists while changes are expected."""

RESTS = 2
"""The pause between two lists is at least this multiple of the last list's duration: to list a
large collection takes the API server seconds."""

T = TypeVar("T")


class Polled(Generic[T]):
    """A collection that is watched if this is allowed, and listed repeatedly otherwise.

    A forbidden watch is tried again every `POLL_SECONDS`: the right can be granted.
    """

    def __init__(
        self,
        inner: Watchable[T],
        *,
        clock: Clock,
        on_access: Callable[[Forbidden | None], None],
        is_expecting: Callable[[], bool] = lambda: False,
    ) -> None:
        """Wrap a collection.

        Args:
            inner: The collection.
            clock: The clock for the pauses.
            on_access: Called with the error if a watch is forbidden, and with None for each event
                of a watch.
            is_expecting: Whether changes are expected, so that the next list must be soon.
        """
        self._is_expecting = is_expecting
        self._least = HURRY_SECONDS
        """The shortest pause between two lists."""
        self._forbidden_until = -inf
        """When the watch is tried again."""
        self._inner = inner
        self._clock = clock
        self._on_access = on_access

    async def list(self, keep: Callable[[T], bool] | None = None) -> Listed[T]:
        """Return all objects, or only objects for which `keep` is True."""
        began = self._clock.monotonic()
        listed = await self._inner.list(keep)
        self._least = max(HURRY_SECONDS, RESTS * (self._clock.monotonic() - began))
        return listed

    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield events; without the right to watch, wait and then request a new list."""
        if self._clock.monotonic() >= self._forbidden_until:
            try:
                async with aclosing(self._inner.watch(resource_version)) as events:
                    async for event in events:
                        self._on_access(None)
                        yield event
            except Forbidden as error:
                self._on_access(error)
                self._forbidden_until = self._clock.monotonic() + POLL_SECONDS
            else:
                return
        await self._wait()
        yield Bookmark("")

    async def _wait(self) -> None:
        until = self._clock.monotonic() + POLL_SECONDS
        while (left := until - self._clock.monotonic()) > 0:
            await self._clock.sleep(min(self._least, left))
            if self._is_expecting():
                return

"""The functions of an author for one resource, which an object needs, and how they end.

An object with `on_delete` gets the finalizer before anything is done for it, and keeps it until
`on_delete` has returned.  So whatever `reconcile` has created outside the cluster is cleaned up,
also if the object is deleted while no shard runs.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from math import inf, isfinite
from typing import Final, TypeAlias

from sharder.core.errors import ConfigError, Conflict, InvalidObject, NotFound, SharderError
from sharder.core.names import ObjectRef, is_label_key
from sharder.runtime.backoff import Backoff
from sharder.sdk.request import Request

Reconcile: TypeAlias = Callable[[Request], Awaitable[float | timedelta | None]]
"""Brings one object into its wanted state; it can run at any time, any number of times.

Returns the seconds after which to requeue the object, or None to wait for a change.  After an
error the object is requeued with back-off.
"""

OnDelete: TypeAlias = Callable[[Request], Awaitable[None]]
"""Cleans up after one object that is being deleted; it can run any number of times.

The object is gone when it returns.  It raises `Requeue` if it is not done yet.
"""

BACKOFF: Final = Backoff(base=0.1, cap=300.0)
"""Seconds between failures; the cap is what the sharder uses for objects that fail."""

_ATTEMPTS: Final = 3
"""Writes of a finalizer: other controllers write theirs at the same time."""


class PermanentError(SharderError):
    """The object cannot be handled as it is: do not retry until the object changes.

    A change is a new resourceVersion that this reconcile has not seen or written; a change of a
    child is none.  A shard that starts, or that gets the object from another one, tries it once.
    """


class Requeue(Exception):  # noqa: N818 - an outcome, not an error
    """The object is not done yet, and nothing is wrong: end here, and start again later.

    Unlike a failure it is not logged as a warning, and it resets the back-off.
    """

    def __init__(self, *, after: float | timedelta) -> None:
        """`after` is the time until then, in seconds or as a timedelta.

        Raises:
            ValueError: it is negative or not finite.
        """
        self.seconds = seconds_of(after)
        super().__init__(f"requeue after {self.seconds:g}s")


def seconds_of(after: float | timedelta) -> float:
    """Return the time in seconds; `ValueError` if it is negative or not finite."""
    seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
    if not isfinite(seconds) or seconds < 0:
        raise ValueError(f"the time until the next reconcile must be 0s or more, not {after}")
    return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Handlers:
    """What is done for the objects of one resource."""

    reconcile: Reconcile
    on_delete: OnDelete | None = None
    finalizer: str = ""
    """Keeps a deleted object until `on_delete` has returned; empty without one."""
    backoff: Backoff = BACKOFF

    def check(self) -> None:
        """Do nothing if this is complete and valid; `ConfigError` otherwise."""
        if bool(self.finalizer) is (self.on_delete is None):
            raise ConfigError(
                "on_delete and finalizer need each other: without the finalizer a deleted object "
                "is gone before on_delete runs"
            )
        if self.finalizer and not ("/" in self.finalizer and is_label_key(self.finalizer)):
            raise ConfigError(
                f"finalizer {self.finalizer!r} must be a domain and a name: example.com/cleanup"
            )
        if not 0 < self.backoff.base <= self.backoff.cap < inf:
            raise ConfigError(
                f"the back-off must have 0 < base <= cap, but has base {self.backoff.base:g}s and "
                f"cap {self.backoff.cap:g}s"
            )


class Handling:
    """Calls the function that an object needs, and looks after its finalizer."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._released: dict[ObjectRef, str] = {}
        """Uids of objects without our finalizer that the watch can still show with it."""

    async def handle(self, request: Request) -> float | timedelta | None:
        """Call the function; return what `reconcile` returns."""
        handlers = self._handlers
        if handlers.on_delete is None:
            return await handlers.reconcile(request)
        uid = request.metadata.uid
        if self._released.get(request.ref) == uid:
            return None
        if not await _has_finalizer(request, handlers.finalizer):
            return None
        if request.metadata.deletion_timestamp is None:
            return await handlers.reconcile(request)
        await handlers.on_delete(request)
        # Before the write: the watch can show its result, and call `forget`, before the answer.
        self._released[request.ref] = uid
        try:
            await _release(request, handlers.finalizer)
        except BaseException:
            self.forget(request.ref)
            raise
        return None

    def forget(self, ref: ObjectRef) -> None:
        """Forget an object that is gone."""
        self._released.pop(ref, None)


async def _has_finalizer(request: Request, name: str) -> bool:
    """Add the finalizer if it is missing; return False if it is too late for that."""
    if request.metadata.has_finalizer(name):
        return True
    if request.metadata.deletion_timestamp is not None:
        return False
    await _insist(request, partial(request.add_finalizer, name))
    if not request.metadata.has_finalizer(name):
        raise InvalidObject(f"finalizer {name} was removed in the write that added it")
    return True


async def _release(request: Request, name: str) -> None:
    """Remove the finalizer; no error if the object is gone."""
    with suppress(NotFound):
        await _insist(request, partial(request.remove_finalizer, name))


async def _insist(request: Request, write: Callable[[], Awaitable[None]]) -> None:
    """Write; after a conflict read the object again and repeat."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return await write()
        except Conflict:
            await request.get(fresh=True)
    return await write()

"""Call the author's function that an object needs, and manage the finalizer of `on_delete`.

With `on_delete`, an object gets the finalizer before its first `reconcile`, and keeps it until
`on_delete` has returned.  So everything that `reconcile` has created outside the cluster is
cleaned up, even if the object is deleted while no shard runs.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final, TypeAlias

from sharder.core.errors import ConfigError, Conflict, InvalidObject, NotFound
from sharder.core.names import ObjectRef, is_label_key
from sharder.runtime.backoff import Backoff
from sharder.sdk.request import Request
from sharder.sdk.retries import BACKOFF, check_backoff

Reconcile: TypeAlias = Callable[[Request], Awaitable[float | timedelta | None]]
"""Brings one object into its wanted state; it can run at any time, any number of times.

Returns the delay (seconds or a timedelta) until the next reconcile, or None to wait for a change.
An error requeues the object with back-off.
"""

OnDelete: TypeAlias = Callable[[Request], Awaitable[None]]
"""Cleans up after one object that is being deleted; it can run any number of times.

When it returns, the finalizer is removed and the object is gone.  It raises `Requeue` while the
clean-up is not finished.
"""

_ATTEMPTS: Final = 3
"""Attempts to write the finalizers: other controllers write them at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handlers:
    """The author's functions for the objects of one resource."""

    reconcile: Reconcile
    on_delete: OnDelete | None = None
    finalizer: str = ""
    """Keeps a deleted object until `on_delete` has returned; empty without `on_delete`."""
    backoff: Backoff = BACKOFF

    def check(self) -> None:
        """Raise `ConfigError` unless the handlers are complete and valid."""
        if bool(self.finalizer) is (self.on_delete is None):
            raise ConfigError(
                "on_delete and finalizer need each other: without the finalizer a deleted object "
                "is gone before on_delete runs"
            )
        if self.finalizer and not ("/" in self.finalizer and is_label_key(self.finalizer)):
            raise ConfigError(
                f"finalizer {self.finalizer!r} must be a domain and a name: example.com/cleanup"
            )
        check_backoff(self.backoff)


class Handling:
    """Calls the function that an object needs, and adds and removes the finalizer."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._released: dict[ObjectRef, str] = {}
        """Uids of objects without our finalizer; the watch might still show them with it."""

    async def handle(self, request: Request) -> float | timedelta | None:
        """Call the function that the object needs; return the delay from `reconcile`, or None."""
        handlers = self._handlers
        if handlers.on_delete is None:
            return await handlers.reconcile(request)
        uid = request.metadata.uid
        if self._released.get(request.ref) == uid:
            return None
        if not await _ensure_finalizer(request, handlers.finalizer):
            return None
        if request.metadata.deletion_timestamp is None:
            return await handlers.reconcile(request)
        await handlers.on_delete(request)
        # Before the write: the watch can show the result, which leads to `forget`, before the
        # answer arrives.
        self._released[request.ref] = uid
        try:
            await _remove_finalizer(request, handlers.finalizer)
        except BaseException:
            self.forget(request.ref)
            raise
        return None

    def forget(self, ref: ObjectRef) -> None:
        """Forget an object that is gone."""
        self._released.pop(ref, None)


async def _ensure_finalizer(request: Request, name: str) -> bool:
    """Add the finalizer if it is missing; return False if the object is deleted without it."""
    if request.metadata.has_finalizer(name):
        return True
    if request.metadata.deletion_timestamp is not None:
        return False
    await _retry_on_conflict(request, partial(request.add_finalizer, name))
    if not request.metadata.has_finalizer(name):
        raise InvalidObject(f"finalizer {name} was removed in the write that added it")
    return True


async def _remove_finalizer(request: Request, name: str) -> None:
    """Remove the finalizer; no error if the object is gone."""
    with suppress(NotFound):
        await _retry_on_conflict(request, partial(request.remove_finalizer, name))


async def _retry_on_conflict(request: Request, write: Callable[[], Awaitable[None]]) -> None:
    """Write; after a conflict read the object again and retry."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return await write()
        except Conflict:
            await request.get(fresh=True)
    return await write()

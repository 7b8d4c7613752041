"""Call the author's function that an object needs, and manage the finalizer of `on_delete`.

With `on_delete`, an object gets the finalizer before its first `reconcile`, and keeps it until
`on_delete` has returned.  So everything that `reconcile` has created outside the cluster is
cleaned up, even if the object is deleted, or no longer selected, while no shard runs.
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
from sharder.sdk.predicates import Selector, every_object
from sharder.sdk.request import Request
from sharder.sdk.retries import BACKOFF, Requeue, check_backoff
from sharder.shard.objects import OwnMeta

Reconcile: TypeAlias = Callable[[Request], Awaitable[float | timedelta | None]]
"""Brings one object into its wanted state; it can run at any time, any number of times.

Returns the delay (seconds or a timedelta) until the next reconcile, or None to wait for a change.
An error requeues the object with back-off.
"""

OnDelete: TypeAlias = Callable[[Request], Awaitable[None]]
"""Cleans up after one object that is being deleted, or that `selects` no longer selects.

It can run any number of times.  When it returns, the finalizer is removed, and a deleted object is
gone.  It raises `Requeue` while the clean-up is not finished.
"""

_ATTEMPTS: Final = 3
"""Attempts to write the finalizers: other controllers write them at the same time."""
_RECHECK_SECONDS: Final = 1.0
"""The delay if the API server has a newer state of an object than the watch: the watch is late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handlers:
    """The author's functions for the objects of one resource."""

    reconcile: Reconcile
    selects: Selector = every_object
    on_delete: OnDelete | None = None
    finalizer: str = ""
    """Keeps a deleted object until `on_delete` has returned; empty without `on_delete`."""
    backoff: Backoff = BACKOFF

    def apply_to(self, meta: OwnMeta) -> bool:
        """Return whether the object needs a function: it is selected, or has the finalizer."""
        return bool(self.selects(meta)) or meta.has_finalizer(self.finalizer)

    def keep(self, meta: OwnMeta) -> bool:
        """Return whether the object gets the finalizer: it is selected, and not being deleted."""
        return meta.deletion_timestamp is None and bool(self.selects(meta))

    def kept_finalizer(self, meta: OwnMeta) -> str | None:
        """Return the finalizer that is added to the object if it is missing, None if none is."""
        return self.finalizer if self.finalizer and self.keep(meta) else None

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
        """Uids of deleted objects without our finalizer; the watch might still show them with it.

        For other objects the caller waits until the watch shows the write.  The answer to the
        write that ends a deleted object has the resourceVersion from before the write.
        """

    async def handle(self, request: Request) -> float | timedelta | None:
        """Call the function that the object needs; return the delay from `reconcile`, or None."""
        handlers, meta = self._handlers, request.metadata
        if handlers.on_delete is None:
            return await handlers.reconcile(request)
        if self._released.get(request.ref) == meta.uid:
            return None
        if handlers.keep(meta):
            await self._add_finalizer(request)
            return await handlers.reconcile(request)
        if meta.has_finalizer(handlers.finalizer):
            await handlers.on_delete(request)
            await self._remove_finalizer(request)
        return None

    def forget(self, ref: ObjectRef) -> None:
        """Forget an object that is gone."""
        self._released.pop(ref, None)

    async def _add_finalizer(self, request: Request) -> None:
        """Add the finalizer if it is missing."""
        name = self._handlers.finalizer
        await self._write(request, partial(request.add_finalizer, name), keep=True)
        if not request.metadata.has_finalizer(name):
            raise InvalidObject(f"finalizer {name} was removed in the write that added it")

    async def _remove_finalizer(self, request: Request) -> None:
        """Remove the finalizer; no error if the object is gone."""

        async def remove() -> None:
            if request.metadata.deletion_timestamp is not None:
                # Before the write: the watch can show the result, which leads to `forget`, before
                # the answer arrives.
                self._released[request.ref] = request.metadata.uid
            await request.remove_finalizer(self._handlers.finalizer)

        try:
            with suppress(NotFound):
                await self._write(request, remove, keep=False)
        except BaseException:
            self.forget(request.ref)
            raise

    async def _write(
        self, request: Request, write: Callable[[], Awaitable[None]], *, keep: bool
    ) -> None:
        """Write the finalizers; after a conflict read the object again and retry.

        Raises:
            Requeue: the object needs another function now.  The next run calls it, by what the
                watch has shown: a watch that is listed again can skip the state that was read.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            if self._handlers.keep(request.metadata) is not keep:
                raise Requeue(after=_RECHECK_SECONDS)
            try:
                return await write()
            except Conflict:
                if attempt == _ATTEMPTS:
                    raise
                await request.get(fresh=True)
        return None

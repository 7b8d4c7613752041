"""Call the author's function that an object needs, and manage the finalizer of `on_delete`.

With `on_delete`, an object gets the finalizer before its first `reconcile`, and keeps it until
`on_delete` has returned.  So everything that `reconcile` has created outside the cluster is
cleaned up, even if the object is deleted, or no longer selected, while no shard runs.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final

from sharder.core.errors import Conflict, InvalidObject, NotFound
from sharder.core.names import ObjectRef
from sharder.sdk.reconciler import Reconciler
from sharder.sdk.request import Request
from sharder.sdk.retries import Requeue

_ATTEMPTS: Final = 3
"""Attempts to write the finalizers: other controllers write them at the same time."""
_RECHECK_SECONDS: Final = 1.0
"""The delay if the API server has a newer state of an object than the watch: the watch is late."""


class Handling:
    """Calls the function that an object needs, and adds and removes the finalizer."""

    def __init__(self, reconciler: Reconciler) -> None:
        self._reconciler = reconciler
        self._released: dict[ObjectRef, str] = {}
        """Uids of deleted objects without our finalizer; the watch might still show them with it.

        For other objects the caller waits until the watch shows the write.  The answer to the
        write that ends a deleted object has the resourceVersion from before the write.
        """

    async def handle(self, request: Request) -> float | timedelta | None:
        """Call the function that the object needs; return the delay from `reconcile`, or None."""
        own, meta = self._reconciler, request.metadata
        if own.on_delete is None:
            return await own.reconcile(request)
        if self._released.get(request.ref) == meta.uid:
            return None
        if own.keep(meta):
            await self._add_finalizer(request)
            return await own.reconcile(request)
        if meta.has_finalizer(own.finalizer):
            await own.on_delete(request)
            await self._remove_finalizer(request)
        return None

    def forget(self, ref: ObjectRef) -> None:
        """Forget an object that is gone."""
        self._released.pop(ref, None)

    async def _add_finalizer(self, request: Request) -> None:
        """Add the finalizer if it is missing."""
        name = self._reconciler.finalizer
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
            await request.remove_finalizer(self._reconciler.finalizer)

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
            if self._reconciler.keep(request.metadata) is not keep:
                raise Requeue(after=_RECHECK_SECONDS)
            try:
                return await write()
            except Conflict:
                if attempt == _ATTEMPTS:
                    raise
                await request.get(fresh=True)
        return None

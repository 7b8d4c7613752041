"""Run the author's function that an object needs, with a request, log records and back-off.

With `on_delete`, an object gets the finalizer before its first `reconcile`, and keeps it until
`on_delete` has returned None.  So everything that `reconcile` has created outside the cluster is
cleaned up, even if the object is deleted while no shard runs.
"""

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from typing import Final

from sharder.core.errors import InvalidObject, NotFound, SharderError
from sharder.core.names import ObjectRef
from sharder.runtime.workqueue import Failed
from sharder.sdk.children import NameTaken
from sharder.sdk.reconciler import PermanentError, seconds_of
from sharder.sdk.request import Request
from sharder.sdk.resource_context import ResourceContext
from sharder.shard.identity import Ownership

_LATE_SECONDS: Final = 5.0
"""After a refused write: the watch might be late, or the drain be withdrawn."""

_log = logging.getLogger(__name__)


class Result(StrEnum):
    """How a reconcile ended, in the words of controller-runtime."""

    SUCCESS = "success"
    """It returned None, so the object waits for a change."""
    REQUEUE_AFTER = "requeue_after"
    """It returned a delay."""
    ERROR = "error"
    """It raised another error."""
    CANCELLED = "cancelled"
    """The object left or drained, or the shard stopped; controller-runtime has no such result."""


class Runner:
    """Runs the functions; the caller must not run them twice at once on one object."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context
        self._reconciler = context.reconciler
        self._metrics = context.shard.metrics
        self._name = str(context.main.resource.id)
        self._given_up: dict[ObjectRef, str] = {}
        """The resourceVersion of each object that is not retried until it changes."""

    async def run(self, ref: ObjectRef) -> float | None:
        """Run the function that the object needs; return the seconds until the next run, or None.

        Raises:
            Failed: the function has failed, which is logged.
        """
        meta = self._context.owned.get(ref)
        if meta is None or self._given_up.get(ref) == meta.resource_version:
            return None
        return await self._run(Request(meta, self._context))

    def forget(self, ref: ObjectRef) -> None:
        """Allow retries after a `PermanentError`."""
        self._given_up.pop(ref, None)

    async def _run(self, request: Request) -> float | None:
        """Measure the run, and log its start and end: the log shows that none overlap."""
        clock = self._context.shard.clock
        result, began = Result.CANCELLED, clock.monotonic()
        _log.info("reconcile started", extra=self._context.fields(request.ref))
        if (task := asyncio.current_task()) is not None:
            task.set_name(f"reconcile of {request.ref}")  # for a warning that it blocks the loop
        try:
            returned = await self._handle(request)
            after = None if returned is None else seconds_of(returned)
            result = Result.SUCCESS if after is None else Result.REQUEUE_AFTER
        except Exception as error:  # noqa: BLE001 - an author's function can raise anything
            after = self._after_refusal(request, error)
            if after is None:
                result = Result.ERROR
                await self._fail(request, error)
        finally:
            request.has_ended = True
            self._measure(result, clock.monotonic() - began)
            why = str(result)
            _log.info("reconcile ended", extra=self._context.fields(request.ref, why=why))
        return after

    async def _handle(self, request: Request) -> float | timedelta | None:
        """Call the function that the object needs; return its delay."""
        own, meta = self._reconciler, request.metadata
        if own.on_delete is None:
            return await own.reconcile(request)
        if meta.deletion_timestamp is None:
            await request.add_finalizer(own.finalizer)
            if not request.metadata.has_finalizer(own.finalizer):
                why = f"finalizer {own.finalizer} was removed in the write that added it"
                raise InvalidObject(why)
            return await own.reconcile(request)
        if meta.has_finalizer(own.finalizer):
            if (after := await own.on_delete(request)) is not None:
                return after
            seen = self._context.owned.get(request.ref)
            with suppress(NotFound):
                await request.remove_finalizer(own.finalizer)
            if seen is not None:
                # The answer does not say whether the object is gone.  If not, the watch shows it.
                self._context.owned.forget(request.ref, version=seen.resource_version)
        return None

    def _after_refusal(self, request: Request, error: Exception) -> float | None:
        """Return the seconds until the next run if it is no failure, because of the object."""
        ref = request.ref
        is_ours = self._context.owned.ownership(ref) is Ownership.OURS
        if is_ours and not request.was_refused:
            return None
        why = str(error) or repr(error)
        _log.info("reconcile cancelled: %s", why, extra=self._context.fields(ref, error=why))
        return _LATE_SECONDS

    async def _fail(self, request: Request, error: Exception) -> None:
        """Report an error, and raise `Failed` if the object is retried."""
        ref = request.ref
        if isinstance(error, PermanentError):
            self._count("controller_runtime_terminal_reconcile_errors_total")
            self._warn(ref, str(error), what="failed, no retry until the object changes")
            self._given_up[ref] = request.metadata.resource_version
            return
        is_expected = isinstance(error, SharderError)
        self._warn(ref, str(error) if is_expected else repr(error), traceback=not is_expected)
        if isinstance(error, NameTaken):
            await self._context.record(request.metadata, "NameTaken", str(error), warning=True)
        raise Failed from error

    def _count(self, name: str, *labels: str) -> None:
        self._metrics.counts[name].add(self._name, *labels)

    def _measure(self, result: Result, seconds: float) -> None:
        """Count a reconcile by its result, and record how long it took."""
        self._count("controller_runtime_reconcile_total", result)
        self._metrics.times["controller_runtime_reconcile_time_seconds"].observe(
            seconds, self._name
        )
        if result is Result.ERROR:
            self._count("controller_runtime_reconcile_errors_total")

    def _warn(
        self, ref: ObjectRef, error: str, *, what: str = "failed", traceback: bool = False
    ) -> None:
        fields = self._context.fields(ref, error=error)
        _log.warning("reconcile %s: %s: %s", what, ref, error, exc_info=traceback, extra=fields)

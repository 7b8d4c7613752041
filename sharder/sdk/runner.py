"""Run an author's functions on one object, with a request, log records and back-off.

The functions are foreign code and can raise anything.
"""

import asyncio
import logging

from sharder.core.errors import SharderError
from sharder.core.names import ObjectRef
from sharder.runtime.backoff import Rng
from sharder.sdk.handlers import Handling
from sharder.sdk.measures import Measures, Result
from sharder.sdk.reconciler import Reconciler
from sharder.sdk.request import Request
from sharder.sdk.resource_context import ResourceContext
from sharder.sdk.retries import PermanentError, Requeue, seconds_of
from sharder.sdk.writes.children import NameTaken

_log = logging.getLogger(__name__)


class Runner:
    """Runs the functions; the caller must not run them twice at once on one object."""

    def __init__(
        self,
        reconciler: Reconciler,
        context: ResourceContext,
        *,
        measures: Measures,
        rng: Rng,
    ) -> None:
        self._reconciler = reconciler
        self._handling = Handling(reconciler)
        self._context = context
        self._measures = measures
        self._rng = rng
        self._failures: dict[ObjectRef, int] = {}
        self._given_up: dict[ObjectRef, str] = {}
        """The resourceVersion of each object that is not retried until it changes."""

    async def run(self, ref: ObjectRef) -> float | None:
        """Run the function that the object needs; return the seconds until the next run, or None.

        An error of the function is logged, and leads to the back-off of the object.
        """
        meta = self._context.owned.get(ref)
        if meta is None or self._given_up.get(ref) == meta.resource_version:
            return None
        try:
            if not self._reconciler.apply_to(meta):
                self._reset(ref)
                self._measures.skipped(ref)
                return None
        except Exception as error:  # noqa: BLE001 - `selects` is foreign code
            self._warn(ref, repr(error), traceback=True)
            return self._back_off(ref)
        return await self._run(Request(ref, meta, self._context))

    def forget(self, ref: ObjectRef) -> None:
        """Forget an object that is gone, or on another shard."""
        self._reset(ref)
        self._handling.forget(ref)

    def _reset(self, ref: ObjectRef) -> None:
        """Reset the back-off of an object, and allow retries after a `PermanentError`."""
        self._failures.pop(ref, None)
        self._given_up.pop(ref, None)

    async def _run(self, request: Request) -> float | None:
        """Measure the run, and log its start and end: the log shows that none overlap."""
        result, began = Result.CANCELLED, self._measures.began(request.ref)
        _log.info("reconcile started", extra=self._context.fields(request.ref))
        if (task := asyncio.current_task()) is not None:
            task.set_name(f"reconcile of {request.ref}")  # for a warning that it blocks the loop
        try:
            returned = await self._handling.handle(request)
            after = None if returned is None else seconds_of(returned)
            result = Result.SUCCESS if after is None else Result.REQUEUE_AFTER
            self._reset(request.ref)
        except Exception as error:  # noqa: BLE001 - an author's function can raise anything
            result, after = await self._failed(request, error)
        finally:
            request.permit.close()
            self._measures.ended(result, began)
            why = str(result)
            _log.info("reconcile ended", extra=self._context.fields(request.ref, why=why))
        return after

    async def _failed(self, request: Request, error: Exception) -> tuple[Result, float | None]:
        """Log the error; return the result of the reconcile and the seconds until the next one."""
        ref, task = request.ref, asyncio.current_task()
        if request.permit.was_refused or (task is not None and task.cancelling()):
            why = str(error) or repr(error)
            # The message repeats the fields, as in `_warn`.
            fields = self._context.fields(ref, error=why)
            _log.info("reconcile cancelled: %s", why, extra=fields)
            # The watch might be late, or a drain be withdrawn.
            return Result.CANCELLED, self._back_off(ref)
        match error:
            case Requeue():
                self._reset(ref)
                return Result.REQUEUE_AFTER, error.seconds
            case PermanentError():
                self._give_up(request, error)
                return Result.ERROR, None
            case SharderError():
                self._warn(ref, str(error))
            case _:
                self._warn(ref, repr(error), traceback=True)
        self._measures.failed(retries=True)
        if isinstance(error, NameTaken):
            self._measures.name_taken()
            await self._context.record(request.metadata, "NameTaken", str(error), warning=True)
        return Result.ERROR, self._back_off(ref)

    def _give_up(self, request: Request, error: PermanentError) -> None:
        self._measures.failed(retries=False)
        fields = self._context.fields(request.ref, error=str(error))
        # The message repeats the fields, as in `_warn`.
        _log.warning(
            "reconcile failed, no retry until the object changes: %s: %s",
            request.ref,
            error,
            extra=fields,
        )
        self._failures.pop(request.ref, None)
        self._given_up[request.ref] = request.metadata.resource_version

    def _warn(self, ref: ObjectRef, error: str, *, traceback: bool = False) -> None:
        # The message repeats the fields: an author's log format might not show them.
        fields = self._context.fields(ref, error=error)
        _log.warning("reconcile failed: %s: %s", ref, error, exc_info=traceback, extra=fields)

    def _back_off(self, ref: ObjectRef) -> float:
        self._given_up.pop(ref, None)
        failures = self._failures[ref] = self._failures.get(ref, 0) + 1
        return self._reconciler.backoff.delay(failures, self._rng)

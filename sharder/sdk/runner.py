"""Run an author's functions on one object, with a request, log records and back-off.

The functions are foreign code and can raise anything.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from math import inf
from types import coroutine
from typing import Final, TypeVar

from sharder.core.errors import SharderError
from sharder.core.names import ObjectRef
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.sdk.handlers import Handlers, Handling
from sharder.sdk.observability.blocked_loop import Activity
from sharder.sdk.observability.measures import Ending, Measures, Stopped
from sharder.sdk.reads.objects import OwnMeta
from sharder.sdk.request import Request
from sharder.sdk.retries import PermanentError, Requeue, seconds_of
from sharder.sdk.workplace import Workplace
from sharder.sdk.writes.children import NameTaken

BLOCKED_SECONDS: Final = 2.0
"""A step of at least this time is logged: it equals the default retry period of the Lease, so a
renewal was late."""

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Runner:
    """Runs the functions; the caller must not run them twice at once on one object."""

    def __init__(
        self,
        handlers: Handlers,
        workplace: Workplace,
        *,
        measures: Measures,
        clock: Clock,
        rng: Rng,
    ) -> None:
        self._handlers = handlers
        self._handling = Handling(handlers)
        self._workplace = workplace
        self._measures = measures
        self._clock = clock
        self._rng = rng
        self._failures: dict[ObjectRef, int] = {}
        self._given_up: dict[ObjectRef, str] = {}
        """The resourceVersion of each object that is not retried until it changes."""
        self._block: tuple[str, float] = ("", -inf)
        """The step that blocked the event loop last, and when (monotonic seconds) it ended."""

    @property
    def blocked(self) -> str:
        """The step that has just blocked the event loop, empty if none did."""
        what, ended = self._block
        return what if self._clock.monotonic() - ended < BLOCKED_SECONDS else ""

    async def run(self, ref: ObjectRef) -> float | None:
        """Run the function that the object needs; return the seconds until the next run, or None.

        An error of the function is logged, and leads to the back-off of the object.
        """
        meta = self._workplace.owned.get(ref)
        if meta is None or self._given_up.get(ref) == meta.resource_version:
            return None
        request = Request(ref, meta, self._workplace)
        try:
            if not self._handlers.apply_to(meta):
                self._reset(ref)
                self._measures.skipped(ref)
                return None
            with self._recorded(request) as ending:
                after = await stepwise(
                    self._call(request),
                    self._measures.activity,
                    (f"reconcile of {ref}", self._workplace.fields(ref)),
                    clock=self._clock,
                    on_block=lambda seconds: self._log_block(ref, seconds),
                )
                ending.returned(after)
        except Requeue as requeue:
            after = requeue.seconds
        except PermanentError as error:
            self._give_up(request, error)
            return None
        except Stopped as stopped:
            # The message repeats the fields, as in `_warn`.
            fields = self._workplace.fields(ref, error=str(stopped))
            _log.info("reconcile cancelled: %s", stopped, extra=fields)
            return self._back_off(ref)  # the watch might be late, or a drain be withdrawn
        except SharderError as error:
            await self._report(meta, error)
            return self._back_off(ref)
        except Exception as error:  # noqa: BLE001 - an author's function can raise anything
            self._warn(ref, repr(error), traceback=True)
            return self._back_off(ref)
        self._reset(ref)
        return after

    def forget(self, ref: ObjectRef) -> None:
        """Forget an object that is gone, or on another shard."""
        self._reset(ref)
        self._handling.forget(ref)

    def _reset(self, ref: ObjectRef) -> None:
        """Reset the back-off of an object, and allow retries after a `PermanentError`."""
        self._failures.pop(ref, None)
        self._given_up.pop(ref, None)

    async def _call(self, request: Request) -> float | None:
        try:
            after = await self._handling.handle(request)
        except Exception as error:
            task = asyncio.current_task()
            if request.permit.was_refused or (task is not None and task.cancelling()):
                raise Stopped(str(error) or repr(error)) from error
            raise
        return None if after is None else seconds_of(after)

    def _log_block(self, ref: ObjectRef, seconds: float) -> None:
        rounded = f"{seconds:.1f}"
        what = f"reconcile of {ref} blocked the event loop for {rounded}s"
        self._block = (what, self._clock.monotonic())
        # The message repeats the fields, as in `_warn`.
        _log.warning(
            "reconcile of %s blocked the event loop for %ss: the Lease was not renewed meanwhile",
            ref,
            rounded,
            extra=self._workplace.fields(ref),
        )

    @contextmanager
    def _recorded(self, request: Request) -> Iterator[Ending]:
        """Measure the reconcile, and log its start and end: the log shows that none overlap."""
        _log.info("reconcile started", extra=self._workplace.fields(request.ref))
        ending = Ending()
        try:
            with self._measures.reconcile(request.ref, ending):
                yield ending
        finally:
            request.permit.close()
            why = str(ending.result)
            _log.info("reconcile ended", extra=self._workplace.fields(request.ref, why=why))

    def _give_up(self, request: Request, error: PermanentError) -> None:
        fields = self._workplace.fields(request.ref, error=str(error))
        # The message repeats the fields, as in `_warn`.
        _log.warning(
            "reconcile failed, no retry until the object changes: %s: %s",
            request.ref,
            error,
            extra=fields,
        )
        self._failures.pop(request.ref, None)
        self._given_up[request.ref] = request.metadata.resource_version

    async def _report(self, meta: OwnMeta, error: SharderError) -> None:
        self._warn(meta.ref, str(error))
        if isinstance(error, NameTaken):
            self._measures.name_taken()
            await self._workplace.record(meta, "NameTaken", str(error), warning=True)

    def _warn(self, ref: ObjectRef, error: str, *, traceback: bool = False) -> None:
        # The message repeats the fields: an author's log format might not show them.
        fields = self._workplace.fields(ref, error=error)
        _log.warning("reconcile failed: %s: %s", ref, error, exc_info=traceback, extra=fields)

    def _back_off(self, ref: ObjectRef) -> float:
        self._given_up.pop(ref, None)
        failures = self._failures[ref] = self._failures.get(ref, 0) + 1
        return self._handlers.backoff.delay(failures, self._rng)


@coroutine
def stepwise(
    inner: Coroutine[object, object, T],
    activity: Activity,
    step_of: tuple[str, Mapping[str, str]],
    *,
    clock: Clock,
    on_block: Callable[[float], None],
) -> Generator[object, object, T]:
    """Await `inner`; call `on_block` with the seconds of each step that blocked the loop.

    A step is the code between two awaits; `activity.step` is `step_of` while it runs.  A pause of
    the process within a step counts as a block too.
    """
    step = partial(inner.send, None)
    while True:
        began, activity.step = clock.monotonic(), step_of
        try:
            awaited = step()
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            activity.step = None
            if (seconds := clock.monotonic() - began) >= BLOCKED_SECONDS:
                on_block(seconds)
        try:
            received = yield awaited
        except BaseException as error:  # noqa: BLE001 - `inner` gets a cancellation too
            step = partial(inner.throw, error)
        else:
            step = partial(inner.send, received)

"""Run an author's function on one object, with a request, a log record and back-off.

The function is foreign code and can raise anything.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from math import inf
from types import coroutine
from typing import Final, TypeAlias, TypeVar

from sharder.core.errors import SharderError
from sharder.core.names import ObjectRef
from sharder.runtime.backoff import Backoff, Rng
from sharder.runtime.clock import Clock
from sharder.sdk.request import Request, Workplace

Reconcile: TypeAlias = Callable[[Request], Awaitable[float | timedelta | None]]
"""Brings one object into its wanted state; it can run at any time, any number of times.

Returns the seconds after which to requeue the object, or None to wait for a change.  After an
error the object is requeued with back-off.
"""

BACKOFF: Final = Backoff(base=0.1, cap=300.0)
"""Seconds between failures; the cap is what the sharder uses for objects that fail."""

BLOCKED_SECONDS: Final = 2.0
"""A longer step is logged: the default retry period, so a renewal was late."""

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Runner:
    """Runs the function; the caller ensures one run at a time per object."""

    def __init__(
        self, reconcile: Reconcile, workplace: Workplace, *, clock: Clock, rng: Rng
    ) -> None:
        self._reconcile = reconcile
        self._workplace = workplace
        self._clock = clock
        self._rng = rng
        self._failures: dict[ObjectRef, int] = {}
        self._block: tuple[str, float] = ("", -inf)
        """What blocked the event loop last, and until when (monotonic seconds)."""

    @property
    def blocked(self) -> str:
        """What has just blocked the event loop, empty if nothing."""
        what, ended = self._block
        return what if self._clock.monotonic() - ended < BLOCKED_SECONDS else ""

    async def run(self, ref: ObjectRef) -> float | None:
        """Run the function; return the seconds after which to requeue, or None."""
        meta = self._workplace.owned.get(ref)
        if meta is None:
            return None
        request = Request(ref, meta, self._workplace)
        try:
            with self._recorded(request):
                after = await stepwise(
                    self._call(request),
                    clock=self._clock,
                    on_block=lambda seconds: self._log_block(ref, seconds),
                )
        except SharderError as error:
            self._warn(ref, str(error))
            return self._back_off(ref)
        except Exception as error:  # noqa: BLE001 - an author's function can raise anything
            self._warn(ref, repr(error), traceback=True)
            return self._back_off(ref)
        self.forget(ref)
        return after.total_seconds() if isinstance(after, timedelta) else after

    def forget(self, ref: ObjectRef) -> None:
        """Reset the back-off of an object."""
        self._failures.pop(ref, None)

    async def _call(self, request: Request) -> float | timedelta | None:
        return await self._reconcile(request)

    def _log_block(self, ref: ObjectRef, seconds: float) -> None:
        rounded = f"{seconds:.1f}"
        what = f"reconcile of {ref} blocked the event loop for {rounded} s"
        self._block = (what, self._clock.monotonic())
        # Not a constant message, as in `_warn`.
        _log.warning(
            "reconcile of %s blocked the event loop for %s s: the Lease is not renewed meanwhile",
            ref,
            rounded,
            extra=self._workplace.fields(ref),
        )

    @contextmanager
    def _recorded(self, request: Request) -> Iterator[None]:
        """Log the start and the end of the reconcile, which shows that two never overlap."""
        _log.info("reconcile started", extra=self._workplace.fields(request.ref))
        why = "done"
        try:
            yield
        except asyncio.CancelledError:
            why = "cancelled"
            raise
        except Exception:
            why = "failed"
            raise
        finally:
            request.close()
            _log.info("reconcile ended", extra=self._workplace.fields(request.ref, why=why))

    def _warn(self, ref: ObjectRef, error: str, *, traceback: bool = False) -> None:
        # Not a constant message: an author's program may show no fields.
        fields = self._workplace.fields(ref, error=error)
        _log.warning("reconcile failed: %s: %s", ref, error, exc_info=traceback, extra=fields)

    def _back_off(self, ref: ObjectRef) -> float:
        failures = self._failures[ref] = self._failures.get(ref, 0) + 1
        return BACKOFF.delay(failures, self._rng)


@coroutine
def stepwise(
    inner: Coroutine[object, object, T], *, clock: Clock, on_block: Callable[[float], None]
) -> Generator[object, object, T]:
    """Await `inner`; call `on_block` with the seconds of each step that blocked the loop.

    The code between two awaits is one step.  A process that was paused within one looks the same.
    """
    step = partial(inner.send, None)
    while True:
        began = clock.monotonic()
        try:
            awaited = step()
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            if (seconds := clock.monotonic() - began) >= BLOCKED_SECONDS:
                on_block(seconds)
        try:
            received = yield awaited
        except BaseException as error:  # noqa: BLE001 - a cancellation is the inner one's too
            step = partial(inner.throw, error)
        else:
            step = partial(inner.send, received)

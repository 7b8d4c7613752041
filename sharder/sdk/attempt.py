"""Run an author's function on one object: with a request of its own, a record, and back-off.

This is an edge: the function is not ours and may raise anything.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, TypeAlias

from sharder.errors import SharderError
from sharder.names import ObjectRef
from sharder.runtime.backoff import Backoff, Rng
from sharder.sdk.request import Request, Workplace

Reconcile: TypeAlias = Callable[[Request], Awaitable[float | timedelta | None]]
"""Brings one object into its wanted state; may be run at any time, any number of times.

Returns after how long (seconds) to look again, None to wait for a change.  An error means: look
again after a back-off.
"""

BACKOFF: Final = Backoff(base=0.1, cap=300.0)
"""Seconds between failures; the cap is what the sharder uses for objects that fail."""

_log = logging.getLogger(__name__)


class Attempts:
    """One run of the function at a time per object, as its caller must see to."""

    def __init__(self, reconcile: Reconcile, workplace: Workplace, *, rng: Rng) -> None:
        self._reconcile = reconcile
        self._workplace = workplace
        self._rng = rng
        self._failures: dict[ObjectRef, int] = {}

    async def run(self, ref: ObjectRef) -> float | None:
        """Run the function; return the seconds after which to look again, None for never."""
        meta = self._workplace.holding.get(ref)
        if meta is None:
            return None
        request = Request(ref, meta, self._workplace)
        try:
            with self._recorded(request):
                after = await self._reconcile(request)
        except SharderError as error:
            self._warn(ref, str(error))
            return self._back_off(ref)
        except Exception as error:  # noqa: BLE001 - whatever an author's function raises
            self._warn(ref, repr(error), traceback=True)
            return self._back_off(ref)
        self.forget(ref)
        return after.total_seconds() if isinstance(after, timedelta) else after

    def forget(self, ref: ObjectRef) -> None:
        """Begin the back-off of an object anew."""
        self._failures.pop(ref, None)

    @contextmanager
    def _recorded(self, request: Request) -> Iterator[None]:
        """Record when work begins and has ended: what shows that two never overlap."""
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
        # Not a constant message: an author's program may show no fields, and has to say why.
        fields = self._workplace.fields(ref, error=error)
        _log.warning("reconcile failed: %s: %s", ref, error, exc_info=traceback, extra=fields)

    def _back_off(self, ref: ObjectRef) -> float:
        failures = self._failures[ref] = self._failures.get(ref, 0) + 1
        return BACKOFF.delay(failures, self._rng)

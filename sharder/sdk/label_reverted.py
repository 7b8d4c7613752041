"""Back-off for drains whose acknowledgement the API server undid.

It is not the work queue's, for an update makes an object due at once: where another webhook
touches the object with each of our writes, these would follow each other without a pause.
"""

import logging
from dataclasses import dataclass
from typing import Final

from sharder.core.names import ObjectRef
from sharder.runtime.backoff import Backoff, Rng
from sharder.runtime.clock import Clock

BACKOFF: Final = Backoff(base=1.0, cap=60.0)
"""Seconds; each try is a write that every webhook is called for."""

_CAUSES: Final = (
    "either the sharder does not take this writer for the shard (name the pod like the shard, or "
    "run it with a ServiceAccount of its Lease's namespace), or another webhook changes labels in "
    "the same write"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Reverted:
    times: int
    until: float
    """When (monotonic seconds) to acknowledge again."""


class RevertedDrains:
    """Objects whose owner and drain labels were put back when the shard removed them."""

    def __init__(self, *, clock: Clock, rng: Rng) -> None:
        self._clock = clock
        self._rng = rng
        self._reverted: dict[ObjectRef, _Reverted] = {}

    def wait(self, ref: ObjectRef) -> float:
        """Return in how many seconds the drain may be acknowledged again, 0 for now."""
        reverted = self._reverted.get(ref)
        return 0.0 if reverted is None else max(0.0, reverted.until - self._clock.monotonic())

    def add(self, ref: ObjectRef, fields: dict[str, str]) -> float:
        """Count one more and return the seconds to wait; the first of a drain is logged."""
        before = self._reverted.get(ref)
        times = before.times + 1 if before else 1
        seconds = BACKOFF.delay(times, self._rng)
        self._reverted[ref] = _Reverted(times, self._clock.monotonic() + seconds)
        if before is None:
            # Not a constant message: an author's program may show no fields.
            _log.warning(
                "drain of %s not acknowledged: its labels were put back, will retry; %s",
                ref,
                _CAUSES,
                extra=fields,
            )
        return seconds

    def forget(self, ref: ObjectRef) -> None:
        """Begin the back-off of an object anew."""
        self._reverted.pop(ref, None)

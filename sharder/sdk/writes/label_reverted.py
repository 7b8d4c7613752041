"""Back-off for drains whose acknowledgement a webhook reverted.

The work queue's back-off does not help: each watch event makes the object due at once.  If a
webhook changes the object with each of our writes, these would follow each other without a pause.
"""

import logging
from dataclasses import dataclass
from typing import Final

from sharder.core.names import ObjectRef
from sharder.runtime.backoff import Backoff, Rng
from sharder.runtime.clock import Clock

BACKOFF: Final = Backoff(base=1.0, cap=60.0)
"""Seconds; long, because each retry is a write that calls every webhook."""

_CAUSES: Final = (
    "either the writer is not the shard (its pod needs the name of the shard, or its "
    "ServiceAccount the namespace of the shard's Lease), or another webhook changes labels in "
    "the same write"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Reverted:
    times: int
    until: float
    """When (monotonic seconds) to acknowledge again."""


class RevertedDrains:
    """Objects whose owner and drain labels were restored when the shard removed them."""

    def __init__(self, *, clock: Clock, rng: Rng) -> None:
        self._clock = clock
        self._rng = rng
        self._reverted: dict[ObjectRef, _Reverted] = {}

    def wait(self, ref: ObjectRef) -> float:
        """Return the seconds until the next acknowledgement, 0 for now."""
        reverted = self._reverted.get(ref)
        return 0.0 if reverted is None else max(0.0, reverted.until - self._clock.monotonic())

    def add(self, ref: ObjectRef, fields: dict[str, str]) -> float:
        """Count a reverted acknowledgement and return the back-off; log the first."""
        before = self._reverted.get(ref)
        times = before.times + 1 if before else 1
        seconds = BACKOFF.delay(times, self._rng)
        self._reverted[ref] = _Reverted(times, self._clock.monotonic() + seconds)
        if before is None:
            # The message repeats the fields: an author's log format might not show them.
            _log.warning(
                "drain of %s not acknowledged: its labels were restored, will retry; %s",
                ref,
                _CAUSES,
                extra=fields,
            )
        return seconds

    def forget(self, ref: ObjectRef) -> None:
        """Reset the back-off of an object."""
        self._reverted.pop(ref, None)

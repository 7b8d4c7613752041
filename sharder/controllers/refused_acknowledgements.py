"""Warn about objects that stay draining because their acknowledgement is refused.

A shard retries, so the first refusals mean little; the writer of one is told by a warning of the
webhook.  Every replica reports the refusals of its own answers.
"""

from typing import Final, NamedTuple

from sharder.controllers.pending_warnings import PendingWarnings
from sharder.core.api.meta import PartialObject
from sharder.core.names import RingName
from sharder.ports import Recorder
from sharder.runtime.clock import Clock

REFUSED: Final = "AcknowledgementRefused"
"""Reason of the Event."""

TIMES: Final = 3
"""How many refusals make an Event; more of them make no other."""

WITHIN_SECONDS: Final = 600.0
"""Seconds in which they have to come: shards retry at least once a minute."""

MAX_REMEMBERED: Final = 1_000
"""Limit on the remembered objects; the one that was refused least recently is forgotten."""


class _Refusals(NamedTuple):
    since: float
    times: int


class RefusedAcknowledgements(PendingWarnings):
    """The refusals of each object, and the Events that are due."""

    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        super().__init__(recorder, clock, REFUSED)
        self._known: dict[tuple[RingName, str], _Refusals] = {}

    def note(self, ring: RingName, obj: PartialObject, why: str) -> None:
        """Note that an update of the object was no acknowledgement."""
        key, now = (ring, obj.metadata.uid), self._clock.monotonic()
        known = self._known.pop(key, None)
        if known is None or known.since + WITHIN_SECONDS < now:
            known = _Refusals(now, 0)
        self._known[key] = known._replace(times=known.times + 1)
        if len(self._known) > MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        if known.times + 1 == TIMES:
            self.add(ring, obj, f"drain not acknowledged, labels restored: {why}")

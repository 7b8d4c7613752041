"""Warn about objects that stay draining because their acknowledgement is refused.

A shard retries, so the first refusals mean little; the writer of one is told by a warning of the
webhook.  Every replica reports the refusals of its own answers.
"""

import asyncio
from typing import Final, NamedTuple, NoReturn

from sharder.core.api.meta import PartialObject
from sharder.core.names import RingName
from sharder.ports import Recorder
from sharder.runtime.clock import Clock

TIMES: Final = 3
"""How many refusals make an Event; more of them make no other."""

WITHIN_SECONDS: Final = 600.0
"""Seconds in which they have to come: shards retry at least once a minute."""

MAX_REMEMBERED: Final = 1_000
"""Limit on the remembered objects; the one that was refused least recently is forgotten."""

REPORT_SECONDS: Final = 1.0
"""Seconds between two rounds of Events."""


class _Refusals(NamedTuple):
    since: float
    times: int


class RefusedAcknowledgements:
    """The refusals of each object, and the Events that are due."""

    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock
        self._known: dict[tuple[RingName, str], _Refusals] = {}
        self._due: dict[tuple[RingName, str], tuple[PartialObject, str]] = {}
        self._news = asyncio.Event()

    def note(self, ring: RingName, obj: PartialObject, why: str) -> None:
        """Note that an update of the object was no acknowledgement."""
        key, now = (ring, obj.metadata.uid), self._clock.monotonic()
        known = self._known.pop(key, None)
        if known is None or known.since + WITHIN_SECONDS < now:
            known = _Refusals(now, 0)
        self._known[key] = known._replace(times=known.times + 1)
        if len(self._known) > MAX_REMEMBERED:
            forgotten = next(iter(self._known))
            del self._known[forgotten]
            self._due.pop(forgotten, None)
        if known.times + 1 == TIMES:
            text = f"ring {ring}: drain not acknowledged, labels restored: {why}"
            self._due[key] = obj.identity(), text
            self._news.set()

    async def report(self) -> NoReturn:
        """Send the Events that are due, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            due, self._due = self._due, {}
            for about, text in due.values():
                await self._recorder.warn(about, "AcknowledgementRefused", text)
            await self._clock.sleep(REPORT_SECONDS)

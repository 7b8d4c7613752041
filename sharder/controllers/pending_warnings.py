"""Warnings about objects that are noticed where no request can be sent, and sent soon after."""

import asyncio
from typing import Final, NoReturn

from sharder.core.api.meta import PartialObject
from sharder.core.names import RingName
from sharder.ports import Recorder
from sharder.runtime.clock import Clock

MAX_PENDING: Final = 1_000
"""Limit on the warnings that wait; what is wrong for longer is noticed again."""

REPORT_SECONDS: Final = 1.0
"""Seconds between two rounds of Events."""


class PendingWarnings:
    """The warnings of one reason, at most one for each object of a ring."""

    def __init__(self, recorder: Recorder, clock: Clock, reason: str) -> None:
        self._recorder = recorder
        self._clock = clock
        self._reason = reason
        self._pending: dict[tuple[RingName, str], tuple[PartialObject, str]] = {}
        self._news = asyncio.Event()

    def add(self, ring: RingName, about: PartialObject, message: str) -> None:
        """Send a warning with the next round, instead of another one about the object."""
        key = ring, about.metadata.uid
        if key in self._pending or len(self._pending) < MAX_PENDING:
            self._pending[key] = about.identity(), f"ring {ring}: {message}"
            self._news.set()

    def drop(self, ring: RingName, about: PartialObject) -> None:
        """Send no warning about the object."""
        self._pending.pop((ring, about.metadata.uid), None)

    async def report(self) -> NoReturn:
        """Send the warnings, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            pending, self._pending = self._pending, {}
            for about, message in pending.values():
                await self._recorder.warn(about, self._reason, message)
            await self._clock.sleep(REPORT_SECONDS)

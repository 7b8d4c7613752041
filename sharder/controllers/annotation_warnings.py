"""Warn once about labels and annotations that cannot be parsed.

An invalid label or annotation is ignored, so only a warning shows it (docs/placement.md, "Invalid
annotations").  Every replica records invalid objects; only the leader sends the Events.
"""

import asyncio
from typing import Final, NamedTuple, NoReturn

from xxhash import xxh3_64_intdigest

from sharder.core.api.meta import PartialObject
from sharder.core.names import RingName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.ports import Recorder
from sharder.runtime.clock import Clock

MALFORMED: Final = "MalformedValue"
"""Reason of the Event."""

MAX_REMEMBERED: Final = 10_000
"""Limit on the remembered objects with invalid annotations: about 3 MB."""

MAX_UNREPORTED: Final = 1_000
"""Limit on the remembered objects without an Event; the next pass over the ring finds the
others."""

MAX_LENGTH: Final = 1_024
"""The maximum length of a message in characters: as many as fit into an Event."""

FORGET_SECONDS: Final = 3600.0
"""Seconds without a check after which an object can be forgotten: a pass checks all objects, so
the object was deleted or corrected."""

REPORT_SECONDS: Final = 1.0
"""Seconds between two rounds of Events."""

_Key = tuple[RingName, str]


class _Known(NamedTuple):
    digest: int
    """The digest of the message."""
    at: float
    """When the object was last checked (monotonic seconds)."""


class AnnotationWarnings:
    """The invalid annotations of each object, and which of them still need an Event."""

    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock
        self._known: dict[_Key, _Known] = {}
        """Ordered by the time of the last check."""
        self._unreported: dict[_Key, tuple[PartialObject, str]] = {}
        self._news = asyncio.Event()

    def check(self, snapshot: RingSnapshot, obj: PartialObject) -> None:
        """Check the labels and annotations of an object."""
        key = snapshot.name, obj.metadata.uid
        text = "; ".join(snapshot.reader.invalid_annotations(obj))[:MAX_LENGTH]
        known = self._known.pop(key, None)
        if not text:
            self._unreported.pop(key, None)
            return
        now, digest = self._clock.monotonic(), xxh3_64_intdigest(text.encode())
        if known is None or known.digest != digest:
            if not self._has_room(key, now):
                return
            self._unreported[key] = obj.identity(), f"ring {snapshot.name}: {text}"
            self._news.set()
        self._known[key] = _Known(digest, now)

    async def report(self) -> NoReturn:
        """Send an Event for each invalid object, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            unreported, self._unreported = self._unreported, {}
            for obj, text in unreported.values():
                await self._recorder.warn(obj, MALFORMED, text)
            await self._clock.sleep(REPORT_SECONDS)

    def _has_room(self, key: _Key, now: float) -> bool:
        """Return whether one more object can be remembered; forget an old object to make room."""
        if key not in self._unreported and len(self._unreported) >= MAX_UNREPORTED:
            return False
        if len(self._known) < MAX_REMEMBERED:
            return True
        oldest, known = next(iter(self._known.items()))
        if now - known.at < FORGET_SECONDS:
            return False
        del self._known[oldest]
        self._unreported.pop(oldest, None)
        return True

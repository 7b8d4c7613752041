"""Warn about labels and annotations that cannot be parsed.

An invalid label or annotation is ignored, so only a warning shows it (docs/placement.md, "Invalid
annotations").  Every replica finds invalid objects, where no request can be sent; only the leader
sends the Events, soon after.
"""

from typing import Final, NoReturn

from sharder.core.api.meta import PartialObject
from sharder.core.names import RingName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.runtime.clock import Clock
from sharder.runtime.events import Recorder

MALFORMED: Final = "MalformedValue"
"""Reason of the Event."""

MAX_LENGTH: Final = 1_024
"""The maximum length of a message in characters: as many as fit into an Event."""

MAX_PENDING: Final = 1_000
"""Limit on the warnings that wait; what is wrong for longer is noticed again."""

REPORT_SECONDS: Final = 1.0
"""Seconds between two rounds of Events."""


class AnnotationWarnings:
    """The objects with invalid annotations that need an Event, each with at most one per ring."""

    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock
        self._pending: dict[tuple[RingName, str], tuple[PartialObject, str]] = {}

    def check(self, snapshot: RingSnapshot, obj: PartialObject) -> None:
        """Check the labels and annotations of an object."""
        key = snapshot.name, obj.metadata.uid
        text = "; ".join(snapshot.reader.invalid_annotations(obj))[:MAX_LENGTH]
        if not text:
            self._pending.pop(key, None)
        elif key in self._pending or len(self._pending) < MAX_PENDING:
            self._pending[key] = obj.identity(), f"ring {snapshot.name}: {text}"

    async def report(self) -> NoReturn:
        """Send the warnings, until cancelled."""
        while True:
            pending, self._pending = self._pending, {}
            for about, message in pending.values():
                await self._recorder.tell(about, MALFORMED, message)
            await self._clock.sleep(REPORT_SECONDS)

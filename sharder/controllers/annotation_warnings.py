"""Warn about labels and annotations that cannot be parsed.

An invalid label or annotation is ignored, so only a warning shows it (docs/placement.md, "Invalid
annotations").  Every replica finds invalid objects; only the leader sends the Events.
"""

from typing import Final

from sharder.controllers.pending_warnings import PendingWarnings
from sharder.core.api.meta import PartialObject
from sharder.core.ring.snapshot import RingSnapshot
from sharder.ports import Recorder
from sharder.runtime.clock import Clock

MALFORMED: Final = "MalformedValue"
"""Reason of the Event."""

MAX_LENGTH: Final = 1_024
"""The maximum length of a message in characters: as many as fit into an Event."""


class AnnotationWarnings(PendingWarnings):
    """The objects with invalid annotations that need an Event."""

    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        super().__init__(recorder, clock, MALFORMED)

    def check(self, snapshot: RingSnapshot, obj: PartialObject) -> None:
        """Check the labels and annotations of an object."""
        text = "; ".join(snapshot.reader.invalid_annotations(obj))[:MAX_LENGTH]
        if text:
            self.add(snapshot.name, obj, text)
        else:
            self.drop(snapshot.name, obj)

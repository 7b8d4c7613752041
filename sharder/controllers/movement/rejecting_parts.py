"""Back off a part of a ring together while every write to its objects fails.

A quota or a webhook can reject every write in a namespace.  Then one object is tried from time to
time, instead of all, and when it is written all others are tried at once.
"""

from dataclasses import dataclass, field

from sharder.controllers.scope import ObjectKey, Part
from sharder.runtime.clock import Clock

IN_A_ROW = 5
"""Failures in a row, of several objects, after which a part backs off together."""

PROBE_SECONDS = 8.0
"""Longest time between two writes to such a part."""


@dataclass(slots=True)
class _Part:
    """A part, some of whose objects could not be written."""

    objects: set[ObjectKey] = field(default_factory=set)
    in_a_row: int = 0
    """Failures since an object of the part was last written."""
    probe_at: float = 0.0
    """When the next write is tried."""

    @property
    def rejects_all(self) -> bool:
        """Whether probably no object of the part can be written."""
        return self.in_a_row >= IN_A_ROW and len(self.objects) > 1


class RejectingParts:
    """The parts with objects that could not be written."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._parts: dict[Part, _Part] = {}

    def until(self, key: ObjectKey) -> float:
        """Return until when the part of an object backs off (monotonic), 0 if it does not."""
        part = self._parts.get(part_of(key))
        return part.probe_at if part is not None and part.rejects_all else 0.0

    def failed(self, key: ObjectKey, seconds: float) -> float:
        """Record a failure; return the back-off of the object, which is `seconds` or less."""
        now, part = self._clock.monotonic(), self._parts.setdefault(part_of(key), _Part())
        part.objects.add(key)
        part.in_a_row += 1
        if part.rejects_all and part.probe_at <= now:
            seconds = min(seconds, PROBE_SECONDS)
            part.probe_at = now + seconds
        return seconds

    def written(self, key: ObjectKey) -> bool:
        """Record a write; return whether the part backed off together until now."""
        part = self._parts.get(part_of(key))
        if part is None:
            return False
        rejected_all, part.in_a_row = part.rejects_all, 0
        return rejected_all

    def over(self, key: ObjectKey) -> None:
        """Record that an object was written, or needs no write."""
        part = self._parts.get(part_of(key), _Part())
        part.objects.discard(key)
        if not part.objects:
            self._parts.pop(part_of(key), None)

    def forget(self, part: Part) -> None:
        """Forget a part that can be read or written again."""
        for each in [each for each in self._parts if part.includes(each)]:
            del self._parts[each]


def part_of(key: ObjectKey) -> Part:
    """Return the part of an object: its namespace."""
    return Part(key.resource_key, key.ref.namespace)

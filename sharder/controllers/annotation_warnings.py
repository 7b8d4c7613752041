"""Tell people once what their objects ask for in vain.

A label or annotation that cannot be understood is ignored; without a word nobody would find out
why (docs/placement.md, "Mistakes").  Every replica takes note, the leader tells.
"""

from typing import Final, NamedTuple, NoReturn

from xxhash import xxh3_64_intdigest

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.names import RingName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.ports import Recorder
from sharder.runtime.clock import Clock

MALFORMED: Final = "MalformedValue"
"""Reason of the Event."""

MAX_REMEMBERED: Final = 10_000
"""Objects with mistakes that are remembered: some 3 MB."""

MAX_UNREPORTED: Final = 1_000
"""Of them, those that are still to be told of; the next pass of the ring shows others again."""

MAX_LENGTH: Final = 1_024
"""Characters of a text, as many as an Event has room for."""

FORGET_SECONDS: Final = 3600.0
"""An object that nobody has looked at for so long is gone, or mended: a pass looks at all."""

REPORT_SECONDS: Final = 1.0
"""Between two looks whether there is something to tell."""

_Key = tuple[RingName, str]


class _Known(NamedTuple):
    digest: int
    """Of the text."""
    at: float
    """When it was seen last."""


class AnnotationWarnings:
    """What was told of which object, and what is still to be told."""

    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock
        self._known: dict[_Key, _Known] = {}
        """The one that was seen last comes last."""
        self._unreported: dict[_Key, tuple[PartialObject, str]] = {}

    def look(self, snapshot: RingSnapshot, obj: PartialObject) -> None:
        """Take note of an object as it is now."""
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
            self._unreported[key] = _identity(obj), f"ring {snapshot.name}: {text}"
        self._known[key] = _Known(digest, now)

    async def report(self) -> NoReturn:
        """Record an Event for each object that has not been told of yet, until cancelled."""
        while True:
            unreported, self._unreported = self._unreported, {}
            for obj, text in unreported.values():
                await self._recorder.warn(obj, MALFORMED, text)
            await self._clock.sleep(REPORT_SECONDS)

    def _has_room(self, key: _Key, now: float) -> bool:
        """Tell whether one more can be remembered; forget one that is gone for it."""
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


def _identity(obj: PartialObject) -> PartialObject:
    """Return what an Event needs of an object: nothing that may be large."""
    meta = obj.metadata
    return PartialObject(
        api_version=obj.api_version,
        kind=obj.kind,
        metadata=ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid),
    )

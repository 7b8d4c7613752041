"""The watches that the controller has open, and how far each has come.

The events of a resource come in the order of their versions, so a stream has shown the state of an
object at a version as soon as it has shown any event of this version or a later one.  The initial
events of a stream that begins with a list come in another order: they count when their end shows.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import msgspec

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.names import GroupResource, ObjectRef
from sharder.proxy.targets import Target
from sharder.runtime.clock import Clock

INITIAL_END: Final = "k8s.io/initial-events-end"
"""The annotation of the bookmark after the initial events (KEP-3157)."""


class Event(msgspec.Struct, frozen=True):
    """A line of a watch."""

    type: str
    object: PartialObject

    @property
    def meta(self) -> ObjectMeta:
        """The metadata of the object."""
        return self.object.metadata


_DECODER: Final = msgspec.json.Decoder(Event)


def event_of(line: bytes) -> Event:
    """Decode a line; raises `msgspec.DecodeError`."""
    return _DECODER.decode(line)


@dataclass(slots=True, eq=False)
class Stream:
    """An open watch of the controller."""

    target: Target
    selects: bool
    """Whether it has selectors of the controller's own, so that it might not show an object."""
    version: int | None
    """All states up to this version were shown; None during the initial events."""
    children: dict[ObjectRef, ObjectMeta] = field(default_factory=dict)
    """The controlled objects that it has shown, as it has shown them last."""

    def shows(self, resource: GroupResource, namespace: str) -> bool:
        """Return whether it shows all objects of a resource in a namespace."""
        is_within = self.target.namespace in {"", namespace}
        return self.target.resource == resource and is_within and not self.selects


class Streams:
    """All open watches of resources of the ring."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open = dict[Stream, None]()
        self._ended = dict[GroupResource, float]()
        """When the last watch of each resource ended."""
        self._changed = asyncio.Event()

    def is_watching(self, resource: GroupResource) -> bool:
        """Return whether the controller watches a resource."""
        return any(each.target.resource == resource for each in self._open)

    def is_unwatched(self, resource: GroupResource, seconds: float) -> bool:
        """Return whether the controller has not watched a resource for so long, or never."""
        ended = self._ended.get(resource, float("-inf"))
        return not self.is_watching(resource) and self._clock.monotonic() - ended >= seconds

    @contextmanager
    def opened(self, target: Target, *, selects: bool, version: str) -> Iterator[Stream]:
        """Follow a stream that begins after a version, or without one with a list."""
        is_after_list = version.isdecimal() and version != "0"
        stream = Stream(target, selects, int(version) if is_after_list else None)
        self._open[stream] = None
        self._note()
        try:
            yield stream
        finally:
            del self._open[stream]
            self._ended[target.resource] = self._clock.monotonic()
            self._note()

    def known(self, resource: GroupResource, ref: ObjectRef) -> ObjectMeta | None:
        """Return a controlled object as the controller sees it, None if no stream has shown it."""
        streams = (each for each in self._open if each.target.resource == resource)
        return next((each.children[ref] for each in streams if ref in each.children), None)

    def shown(self, stream: Stream, event: Event) -> None:
        """Record an event that was written."""
        meta, version = event.meta, event.meta.resource_version
        if event.type in {"ADDED", "MODIFIED"} and meta.controller is not None:
            stream.children[meta.ref] = meta
        elif event.type == "DELETED":
            stream.children.pop(meta.ref, None)
        if not version.isdecimal():
            return
        if stream.version is None and meta.annotation(INITIAL_END) != "true":
            return
        stream.version = max(stream.version or 0, int(version))
        self._note()

    async def until_shown(self, resource: GroupResource, namespace: str, version: int) -> None:
        """Wait until each open stream has shown the state of its objects at a version."""
        while any(
            each.version is None or each.version < version
            for each in self._open
            if each.shows(resource, namespace)
        ):
            await self._changed.wait()

    def _note(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

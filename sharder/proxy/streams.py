"""The watches that the controller has open, and how far each has come.

The events of a resource come in the order of their versions, so a stream has shown the state of an
object at a version as soon as it has shown any event of this version or a later one.  The initial
events of a stream that begins with a list come in another order: they count when their end shows.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from sys import intern
from typing import Final, NamedTuple, TypeAlias

import msgspec

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.names import GroupResource, ObjectRef
from sharder.core.nesting import whole
from sharder.runtime.clock import Clock

INITIAL_END: Final = "k8s.io/initial-events-end"
"""The annotation of the bookmark after the initial events (KEP-3157)."""
RETURN_SECONDS: Final = 5.0
"""For so long a watch is expected after a list, or after the last one has ended, if another one
shows its objects."""
BACKOFF_SECONDS: Final = 30.0
"""For so long a client can wait before it watches again (client-go, reflector.go)."""
MAX_EXPECTED: Final = 1000
"""The watches that are expected until they return: those that ended last."""
_POLL_SECONDS: Final = 0.05

LatestVersions: TypeAlias = Mapping[str, int]
"""The last version of some objects in each namespace."""


class Event(msgspec.Struct, frozen=True):
    """A line of a watch."""

    type: str
    object: PartialObject

    @property
    def meta(self) -> ObjectMeta:
        """The metadata of the object."""
        return self.object.metadata

    @property
    def shows(self) -> bool:
        """Whether the controller sees the object from now on."""
        return self.type in {"ADDED", "MODIFIED"}


_DECODER: Final = msgspec.json.Decoder(Event)


def event_of(line: bytes) -> Event:
    """Decode a line; raises `msgspec.DecodeError`."""
    return whole(_DECODER.decode, line)


class Selectors(NamedTuple):
    """The selectors of the controller's own."""

    labels: str = ""
    fields: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Selectors":
        """Return those of a request."""
        return cls(query.get("labelSelector", ""), query.get("fieldSelector", ""))


Kind: TypeAlias = tuple[GroupResource, Selectors]
"""Objects of a resource that the controller watches in the same way."""


class Sight(NamedTuple):
    """What a watch shows."""

    resource: GroupResource
    namespace: str
    """Empty for all."""
    selectors: Selectors

    def has(self, resource: GroupResource, selectors: Selectors, namespace: str) -> bool:
        """Return whether it contains the objects of a namespace that match the selectors."""
        is_within = self.namespace in {"", namespace}
        return is_within and (self.resource, self.selectors) == (resource, selectors)


@dataclass(slots=True, eq=False)
class Stream:
    """An open watch of the controller."""

    sight: Sight
    version: int | None
    """All states up to this version were shown; None during the initial events."""
    parents: dict[str, str] = field(default_factory=dict)
    """The uid of what controls each object that it shows, by namespace and name as text."""
    initial: set[str] = field(default_factory=set)
    """The uids of main objects in the initial events, until their end."""
    latest: dict[Kind, LatestVersions] | None = None
    """The children by kind, during initial events that will end; else None.

    All of these events are older than a list of children, so one list serves them all."""


class _Left(NamedTuple):
    """A cache of the controller that is neither listed nor watched now."""

    sight: Sight
    at: float
    """When the list or the watch ended."""
    watched: float
    """When its last watch ended."""


class Streams:
    """All open watches of resources of the ring."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = clock.monotonic() + RETURN_SECONDS
        """Until then, a controller that has outlived another proxy comes back to this one."""
        self._open = dict[Stream, None]()
        self._lists = list[Sight]()
        """The lists under way that begin a watch."""
        self._left = deque[_Left](maxlen=MAX_EXPECTED)
        """The caches whose watch has not begun yet, or again."""

    def is_watching(self, resource: GroupResource) -> bool:
        """Return whether the controller watches a resource."""
        return any(each.sight.resource == resource for each in self._open)

    def is_behind(self, resource: GroupResource) -> bool:
        """Return whether the controller is shown a list of a resource, or is to watch it again."""
        initial = (s.latest is not None for s in self._open if s.sight.resource == resource)
        watched = (left.watched for left in self._left if left.sight.resource == resource)
        since = self._clock.monotonic() - max(watched, default=-inf)
        if since < BACKOFF_SECONDS and not self.is_watching(resource):
            return True
        return any(sight.resource == resource for sight in self._lists) or any(initial)

    def is_unwatched(self, resource: GroupResource, seconds: float) -> bool:
        """Return whether the controller has not watched a resource for so long, or never."""
        ended = (left.at for left in self._left if left.sight.resource == resource)
        since = self._clock.monotonic() - max(ended, default=-inf)
        return not self.is_watching(resource) and since >= seconds

    @contextmanager
    def listing(self, sight: Sight, *, begins_watch: bool) -> Iterator[None]:
        """Expect a watch from now on, if the list begins one, or a watch of the same has ended."""
        left = self._returned(sight)
        if left is None and not begins_watch:
            yield
            return
        self._lists.append(sight)
        try:
            yield
        finally:
            self._lists.remove(sight)
            watched = -inf if left is None else left.watched
            self._left.append(_Left(sight, self._clock.monotonic(), watched))

    @contextmanager
    def opened(
        self, sight: Sight, version: str, *, sends_initial: bool = False
    ) -> Iterator[Stream]:
        """Follow a stream that begins after a version, or with initial events.

        Only if it `sends_initial` ones by request does it show where they end.
        """
        is_after_list = version.isdecimal() and version != "0" and not sends_initial
        stream = Stream(sight, int(version) if is_after_list else None)
        stream.latest = {} if sends_initial else None
        self._open[stream] = None
        self._returned(sight)
        try:
            yield stream
        finally:
            del self._open[stream]
            now = self._clock.monotonic()
            self._left.append(_Left(sight, now, now))

    def parent(self, resource: GroupResource, ref: ObjectRef) -> str:
        """Return the uid of what controls an object that the controller sees, else empty."""
        name, streams = str(ref), (s for s in self._open if s.sight.resource == resource)
        return next((each.parents[name] for each in streams if name in each.parents), "")

    def shown(self, stream: Stream, event: Event) -> None:
        """Record an event that was written."""
        meta, version = event.meta, event.meta.resource_version
        if event.shows and meta.controller is not None:
            stream.parents[str(meta.ref)] = intern(meta.controller.uid)
        elif event.type != "BOOKMARK":
            stream.parents.pop(str(meta.ref), None)
        if not version.isdecimal():
            return
        if stream.version is None and meta.annotation(INITIAL_END) != "true":
            return
        stream.version = max(stream.version or 0, int(version))

    def selectors(self, resource: GroupResource) -> Collection[Selectors]:
        """Return the selectors with which the controller watches a resource, or is about to."""
        watched = (each.sight for each in self._open if each.sight.resource == resource)
        return {sight.selectors for sight in (*watched, *self._expected(resource))}

    async def until_begun(self, resource: GroupResource) -> None:
        """Wait for the first watch, as this proxy may be new to a controller that has caches."""
        while not self.selectors(resource) and self._clock.monotonic() < self._until:
            await self._clock.sleep(_POLL_SECONDS)

    def outlived(self) -> None:
        """Record that the controller has caches from before this proxy, and may back off."""
        self._until = self._clock.monotonic() + BACKOFF_SECONDS

    async def until_shown(
        self, resource: GroupResource, selectors: Selectors, namespace: str, version: int
    ) -> None:
        """Wait until each stream with these selectors has shown its objects at a version."""
        wanted = resource, selectors, namespace
        while any(
            each.version is None or each.version < version
            for each in self._open
            if each.sight.has(*wanted)
        ) or any(sight.has(*wanted) for sight in self._expected(resource)):
            await self._clock.sleep(_POLL_SECONDS)

    def _returned(self, sight: Sight) -> _Left | None:
        """Return the cache that is back, and expect it no longer; None if none is expected."""
        left = next((each for each in reversed(self._left) if each.sight == sight), None)
        if left is not None:
            self._left.remove(left)
        return left

    def _expected(self, resource: GroupResource) -> list[Sight]:
        """Return what the controller is about to watch: it has, and nothing else shows it now."""
        since = self._clock.monotonic() - RETURN_SECONDS
        shown = {each.sight.namespace for each in self._open if each.sight.resource == resource}
        left = [
            sight
            for sight, at, _ in self._left
            if at >= since or shown.isdisjoint({"", sight.namespace})
        ]
        return [sight for sight in (*self._lists, *left) if sight.resource == resource]

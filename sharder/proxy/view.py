"""What the controller sees of the cluster: the objects of this shard, and a Lock that it holds.

A main object is held back until the controller has been shown what it controls.  Otherwise the
controller would create its children again, which it has not seen.
"""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import product
from math import inf
from typing import Final, NamedTuple

from sharder.core.api.meta import ObjectMeta, number_of
from sharder.core.errors import ApiError, ConfigError
from sharder.core.names import GroupResource, ObjectRef
from sharder.proxy.election import Lock
from sharder.proxy.health import Health
from sharder.proxy.here import Here
from sharder.proxy.streams import Kind, LatestVersions, Selectors, Sight, Stream, Streams
from sharder.proxy.write_gate import Refused, WriteGate
from sharder.shard.context import ShardContext
from sharder.shard.identity import Ownership

HELD_SECONDS: Final = 5.0
"""The longest time for which an object is held back for its children, if they are not behind."""
_RETRY_SECONDS: Final = 0.5
MAX_OUTSIDE: Final = 500
"""Resources outside the ring that are told: the Lease names them in each renewal, which fails if
its annotations exceed 256 KiB."""
MAX_SHOWN: Final = 1000
"""Lists and watches of main objects that are remembered; after others, a watch lists again."""

_log = logging.getLogger(__name__)


class Options(NamedTuple):
    """What the proxy is told about the controller."""

    election: ObjectRef | None = None
    """The Lease of its leader election; None: the first that it reads."""
    health: str | None = None
    """The URL of its health endpoint."""
    read_others: frozenset[GroupResource] = frozenset()
    """As `View.read_others`."""


class Term:
    """What holds since the proxy began, or the last Lease ended, until the next one ends."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.left: Callable[[], float] = lambda: 0.0
        """Returns for how many seconds this shard certainly holds its Lease."""
        self._sights = deque[Sight](maxlen=MAX_SHOWN)
        """What was shown last of the main resources, in a list or a stream."""

    def show(self, sight: Sight) -> None:
        """Record that the controller sees these main objects from now on."""
        if not self.has_shown(sight):
            self._sights.append(sight)

    def has_shown(self, sight: Sight) -> bool:
        """Return whether the controller has seen these main objects, or more of them."""
        namespaces, selectors = {"", sight.namespace}, {Selectors(), sight.selectors}
        return any(
            Sight(sight.resource, *more) in self._sights for more in product(namespaces, selectors)
        )


class View:
    """The parts that all requests share."""

    def __init__(self, context: ShardContext, options: Options) -> None:
        """Show what a shard has, at first without its Lease.

        Raises:
            ConfigError: an option names a resource that is not of the ring.
        """
        clock, identity, found = context.clock, context.identity, context.found
        if wrong := options.read_others - found.keys():
            names = ", ".join(map(str, wrong))
            raise ConfigError(f"--read-others: ring {identity.ring} lacks {names}")
        self._context = context
        self.here = Here(identity, clock.monotonic)
        self.streams = Streams(clock)
        self.gate = WriteGate(context, self.here, self.streams, self._is_led)
        self.lock = Lock(clock, options.election)
        self.health = None if options.health is None else Health(options.health, clock)
        """Of a controller that elects no leader."""
        self.term = Term()
        self.read_others = options.read_others
        """Resources of the ring of which the controller sees more than what this shard has: those
        of others by get, or if they are controlled, what no object of the ring controls."""
        self.outside = set[GroupResource]()
        """What the controller has watched besides the resources of the ring."""

    def _is_led(self) -> bool:
        """Return whether this shard holds its Lease, and a process of the controller its Lock."""
        return self.term.left() > 0 and not self.lock.is_late(inf)

    def absence(self, seconds: float) -> str:
        """Return why the controller does not work for `seconds`, empty if it does."""
        since = f" for {seconds:g} s" if seconds else ""
        if self.lock.is_late(seconds):
            return f"the controller has not renewed its Lease{since}"
        if self.health is not None and self.health.is_late(seconds):
            return f"the controller's health endpoint has not answered{since}"
        for resource in self._context.handled:
            if self.streams.is_unwatched(resource, seconds):
                return f"the controller has not watched {resource}{since}"
        return ""

    def open(self, left: Callable[[], float]) -> None:
        """Let requests pass while the shard holds its Lease, for `left()` more seconds."""
        self.term.left = left

    def close(self) -> None:
        """Let no write pass, and end all watches: the next process has to see all objects."""
        self.term.ended.set()
        self.term = Term()
        self.lock.lose()
        self.here.forget_delivered()

    async def ready(
        self,
        term: Term,
        resource: GroupResource,
        shown: Collection[ObjectMeta],
        gone: Collection[ObjectMeta] = (),
        stream: Stream | None = None,
    ) -> None:
        """Return when the controller can be shown objects, and that others are gone.

        That is not before our own watch, which shows drains, has come so far: the controller never
        knows more than we do.  `term` is the one in which the controller asked.  `stream` shows
        them, if no list does.

        Raises:
            Refused: the term has ended since.
        """
        versions = [number_of(meta.resource_version) for meta in (*shown, *gone)]
        await self.here.until_reached(resource, max(versions, default=-1))
        new = [meta for meta in shown if self.here.of_uid(meta.uid) is None]
        try:
            if new:
                await self._until_shown(await self._latest(resource, new, stream))
        except TimeoutError:
            names = ", ".join(str(meta.ref) for meta in new[:3])
            _log.warning("delivering %s after %g s, before its children", names, HELD_SECONDS)
        if term.ended.is_set():
            raise Refused(503, "this shard has lost its Lease meanwhile; list again")

    async def _until_shown(self, children: Mapping[Kind, LatestVersions]) -> None:
        while True:
            try:
                async with asyncio.timeout(HELD_SECONDS):
                    for kind, latest in children.items():
                        for at, last in latest.items():
                            await self.streams.until_shown(*kind, at, last)
            except TimeoutError:
                if not any(self.streams.is_behind(child) for child, _ in children):
                    raise
            else:
                return

    async def _latest(
        self, resource: GroupResource, new: Iterable[ObjectMeta], stream: Stream | None
    ) -> Mapping[Kind, LatestVersions]:
        """Return the last versions of this shard's children, as the controller watches them."""
        namespace, *more = {meta.namespace for meta in new}
        latest, namespace = dict[Kind, LatestVersions](), "" if more else namespace
        if stream is not None and stream.latest is not None:
            latest, namespace = stream.latest, stream.sight.namespace
        children = self._context.handled[resource]
        for child in children:
            await self.streams.until_begun(child)
        for kind in (
            (child, each) for child in children for each in self.streams.selectors(child)
        ):
            if kind not in latest:
                latest[kind] = await self._listed(*kind, namespace)
        return latest

    async def _listed(
        self, child: GroupResource, selectors: Selectors, namespace: str
    ) -> LatestVersions:
        """Return the last versions of this shard's children.

        Raises:
            TimeoutError: they cannot be listed, again and again.
        """
        context, selector = self._context, self._context.identity.selector
        children = context.cluster.objects(context.found[child], selector, namespace)
        until = context.clock.monotonic() + HELD_SECONDS
        while True:
            latest = defaultdict[str, int](int)
            try:
                async for obj in children.stream(*selectors):
                    at, version = obj.metadata.namespace, number_of(obj.metadata.resource_version)
                    latest[at] = max(latest[at], version)
            except ApiError as error:
                _log.warning("cannot list %s: %s", child, error)
                if context.clock.monotonic() >= until:
                    raise TimeoutError from error
                await context.clock.sleep(_RETRY_SECONDS)
            else:
                return latest

    async def check_reached(self, resource: GroupResource, version: str) -> None:
        """Raise `Rewound` if the API server has not reached a version: etcd was restored."""
        await self._context.cluster.objects(self._context.found[resource]).check_reached(version)

    def watches(self, resource: GroupResource) -> None:
        """Record what the controller watches outside the ring, and log it once."""
        if resource not in self.outside and len(self.outside) < MAX_OUTSIDE:
            self.outside.add(resource)
            _log.info(
                "the controller watches %s, which is not of the ring: every shard handles it",
                resource,
            )

    def labels_of(self, resource: GroupResource) -> str:
        """Return the labels of the objects of a resource of the ring that the controller sees.

        Empty: all, without those of `is_hidden`.
        """
        identity = self._context.identity
        if self.gate.is_main(resource):
            return f"{identity.selector},!{identity.drain_label}"
        return "" if resource in self.read_others else identity.selector

    def is_hidden(self, child: ObjectMeta) -> bool:
        """Return whether a main object on another shard controls a child."""
        ownership = self._context.identity.ownership_of(child)
        return ownership is Ownership.ELSEWHERE and self.gate.parent(child.controller) is not None

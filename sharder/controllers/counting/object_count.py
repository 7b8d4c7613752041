"""Recount the objects of a ring after some were created, deleted or moved.

This is for rings whose strategy follows; other rings have a tally.  Nothing is stored per object:
a count is a list of metadata, page by page, at most every `COUNT_SECONDS`.  After a count, a watch
waits for the first created or deleted object, and then ends; the mover reports moves.  A ring
without changes costs nothing.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Final

from sharder.controllers.cache import ClusterCache
from sharder.controllers.counting.live_counts import LiveCounts
from sharder.controllers.counting.resync_stats import PartCounts
from sharder.controllers.counting.unread_parts import Unreadable, UnreadParts
from sharder.controllers.permissions import naming_the_rule
from sharder.controllers.scope import (
    ListRequest,
    Part,
    ResourceKey,
    requests_of,
    scope_of,
    selector_text,
)
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import ApiError, Expired, Forbidden, NotFound
from sharder.core.names import RingName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.status import COUNTS_SECONDS
from sharder.ports import Bookmark, Changed, Objects, Removed, Store, WatchEvent
from sharder.runtime.backoff import Backoff, Rng
from sharder.runtime.clock import Clock
from sharder.runtime.reflector import closing
from sharder.runtime.workqueue import WorkQueue

COUNT_SECONDS: Final = COUNTS_SECONDS
"""Seconds between two counts of a ring: its status is written as often for changed counts."""

SETTLE_SECONDS: Final = 2.0
"""Seconds from the first change to the count: many objects move at a time."""

BACKOFF: Final = Backoff(base=30.0, cap=300.0)
"""Delays between attempts at a failed count."""

WATCH_BACKOFF: Final = Backoff(base=1.0, cap=60.0)
"""Delays between attempts at a watch that ended early or failed."""

CONCURRENCY: Final = 2
"""Rings that are counted at the same time."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """A counted list, and where to continue from."""

    snapshot: RingSnapshot
    store: Store[PartialObject]
    version: str


class ObjectCount:
    """Counts a ring when its objects have changed."""

    def __init__(
        self,
        *,
        cache: ClusterCache,
        objects: Objects,
        live: LiveCounts,
        unread: UnreadParts,
        counted: Callable[[RingName], None],
        clock: Clock,
        rng: Rng,
    ) -> None:
        """Set up the counts.

        Args:
            cache: Has the rings.
            objects: Lists and watches the objects.
            live: Gets the counts of each part.
            unread: Gets the parts that could not be counted; they are left out until read again.
            counted: Called after each count of a ring.
            clock: For the times.
            rng: For the jitter of back-offs.
        """
        self._cache = cache
        self._objects = objects
        self._live = live
        self._unread = unread
        self._on_counted = counted
        self._clock = clock
        self._rng = rng
        self._queue = WorkQueue[RingName](clock=clock, rng=rng, backoff=BACKOFF)
        self._counted: dict[RingName, float] = {}
        """When each ring was last counted."""
        self._watches: dict[RingName, list[asyncio.Task[None]]] = {}

    def moved(self, ring: RingName) -> None:
        """Recount the ring soon: an object was created, deleted or moved."""
        self._end(ring)
        due = self._counted.get(ring, -inf) + COUNT_SECONDS - self._clock.monotonic()
        self._queue.add_after(ring, max(SETTLE_SECONDS, due))

    def passed(self, ring: RingName) -> None:
        """Recount the ring later and watch it, unless it is watched: the resync has counted it."""
        if ring not in self._watches:
            self._queue.add_after(ring, COUNT_SECONDS)

    async def run(self) -> None:
        """Count and watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            await self._queue.run(partial(self._reconcile, group), concurrency=CONCURRENCY)

    async def _reconcile(self, group: asyncio.TaskGroup, name: RingName) -> None:
        self._end(name)
        snapshot = self._cache.snapshot(name)
        if snapshot is None or snapshot.tally is not None:
            self._counted.pop(name, None)
            return
        self._counted[name] = self._clock.monotonic()
        self._live.keep(snapshot)
        listed = await self._count(snapshot)
        self._on_counted(name)
        self._watches[name] = [
            group.create_task(self._await_change(name, each), name=f"watch {name}")
            for each in listed
        ]

    async def _count(self, snapshot: RingSnapshot) -> list[_Listed]:
        """Count the parts that can be read; return the lists that were counted."""
        found = []
        list_scope = scope_of(snapshot, self._cache.known_namespaces())
        for main in snapshot.resources:
            key = ResourceKey(snapshot.name, main.id)
            with self._noting(Part(key)):
                resource = await self._objects.find(main.id)
                for request in requests_of(resource, list_scope):
                    part = Part(key, request.namespace)
                    if part not in self._unread:
                        with self._noting(part):
                            found.append(await self._list(snapshot, part, resource, request))
        return found

    async def _list(
        self, snapshot: RingSnapshot, part: Part, resource: Resource, request: ListRequest
    ) -> _Listed:
        selector = selector_text(snapshot.ring.spec.object_selector)
        store = self._objects.of(
            resource, selector, namespace=request.namespace, fields=request.fields
        )
        counts = PartCounts()

        def note(obj: PartialObject) -> bool:
            if snapshot.selects(obj):
                counts.add(snapshot, obj)
            return False

        began = self._live.list_begins(part)
        listed = await store.list(note)
        self._live.counted(part, began, counts)
        return _Listed(snapshot, store, listed.resource_version)

    @contextmanager
    def _noting(self, part: Part) -> Iterator[None]:
        try:
            with naming_the_rule(part.resource):
                yield
        except ApiError as error:
            self._unread.failed(part, Unreadable(part, error))

    async def _await_change(self, name: RingName, listed: _Listed) -> None:
        """Wait until an object is created or deleted; end at once without the right to watch."""
        version, failures = listed.version, 0
        while True:
            try:
                async with closing(listed.store.watch(version)) as events:
                    async for event in events:
                        failures = 0
                        if self._counts(name, listed, event):
                            self.moved(name)
                            return
                        version = _version_of(event) or version
            except Expired:
                self.moved(name)
                return
            except (Forbidden, NotFound):
                return
            except ApiError:
                failures += 1
            await self._clock.sleep(WATCH_BACKOFF.delay(max(1, failures), self._rng))

    def _counts(self, name: RingName, listed: _Listed, event: WatchEvent[PartialObject]) -> bool:
        """Return whether an event changes the number of objects in scope; most events do not."""
        match event:
            case Removed(obj):
                pass
            case Changed(obj, is_new=True):
                pass
            case _:
                return False
        now = self._cache.snapshot(name)
        return listed.snapshot.selects(obj) or (now is not None and now.selects(obj))

    def _end(self, ring: RingName) -> None:
        for task in self._watches.pop(ring, []):
            task.cancel()


def _version_of(event: WatchEvent[PartialObject]) -> str:
    if isinstance(event, Bookmark):
        return event.resource_version
    return event.obj.metadata.resource_version

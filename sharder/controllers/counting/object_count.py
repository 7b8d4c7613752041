"""Count the objects of a ring, again after some were created, deleted or moved.

This is for rings whose strategy follows; other rings have a tally.  Nothing is stored per object:
a count is a list of metadata, page by page, and takes at most a hundredth of the time.  After a
count, a watch waits for the first created or deleted object, and the mover reports moves.  A ring
without changes is counted again when the API server ends the watch, every few minutes.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Final

from sharder.controllers.counting.unread_parts import Unreadable, UnreadParts
from sharder.controllers.ports import Ports
from sharder.controllers.scope import (
    Part,
    naming_the_rule,
    parts_of,
    requests_of,
    scope_of,
    selector_text,
)
from sharder.core.api.meta import PartialObject
from sharder.core.errors import ApiError, Forbidden, NotFound
from sharder.core.names import RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.conditions import ObjectStats, Waiting, unowned_of
from sharder.ports import Changed, Removed, Store, WatchEvent
from sharder.runtime.backoff import Backoff
from sharder.runtime.workqueue import WorkQueue

SETTLE_SECONDS: Final = 2.0
"""Seconds from the first change to the count: many objects move at a time."""

SHARE: Final = 100
"""A ring is counted again after so many times the seconds of its last count."""

COUNTS_SECONDS: Final = (10.0, 30.0)
"""The least and the most seconds between two counts of a ring whose objects change all the time:
each count costs the API server a list of all."""

BACKOFF: Final = Backoff(base=30.0, cap=300.0)
"""Delays between attempts at a failed count."""

CONCURRENCY: Final = 2
"""Rings that are counted at the same time."""


_Counts = Counter[tuple[ShardName | None, bool]]
"""The main objects of one part, by their owner, and by whether they are draining."""


@dataclass(slots=True)
class _State:
    """The last count of one ring; a part that cannot be counted keeps its last numbers."""

    parts: dict[Part, _Counts] = field(default_factory=dict)
    moves: Counter[ShardName] = field(default_factory=Counter)
    """How many objects each shard has gained or lost since this count, as far as we know."""
    due: float = -inf
    """When it can be counted again."""
    scope: tuple[object, ...] = ()
    """What the objects depended on that were counted; empty before the first count."""
    watches: list[asyncio.Task[None]] = field(default_factory=list)

    def end_watches(self) -> None:
        """Stop waiting for a change."""
        while self.watches:
            self.watches.pop().cancel()


class ObjectCount:
    """Counts a ring when its objects have changed."""

    def __init__(self, ports: Ports, unread: UnreadParts) -> None:
        """`unread` gets the parts that could not be counted; they are left out until then."""
        self._cache = ports.cache
        self._objects = ports.objects
        self._unread = unread
        self._on_counted = ports.on_change
        self._clock = ports.clock
        self._queue = WorkQueue[RingName](clock=ports.clock, rng=ports.rng, backoff=BACKOFF)
        self._rings: dict[RingName, _State] = {}

    def stats(self, snapshot: RingSnapshot, waiting: Waiting) -> ObjectStats | None:
        """Return the last count, None before the first; `waiting` is what the watches show now."""
        state = self._rings.get(snapshot.name)
        if state is None or not state.scope:
            return None
        counts = sum(state.parts.values(), _Counts())
        draining = sum(many for (_, drains), many in counts.items() if drains)
        by_owner = Counter[ShardName | None](state.moves)
        for (owner, _), many in counts.items():
            by_owner[owner] += many
        unassigned = by_owner.pop(None, 0)
        by_shard = {shard: many for shard, many in by_owner.items() if shard and many > 0}
        shown = unassigned if waiting.unassigned is None else waiting.unassigned
        return ObjectStats(
            objects=counts.total(),
            unassigned=shown,
            draining=draining if waiting.draining is None else waiting.draining,
            by_shard=by_shard,
            has_room=None,
            unowned=unowned_of(snapshot.members, by_shard, shown),
        )

    def assigned(self, ring: RingName, source: ShardName | None, target: ShardName) -> None:
        """Record the move of one object; `source` is None if it had no shard, or an unknown one.

        One that moves during a count can be counted wrong until the next count.
        """
        moves = self._rings.get(ring, _State()).moves
        moves[target] += 1
        if source is not None:
            moves[source] -= 1

    def moved(self, ring: RingName) -> None:
        """Count the ring soon: an object was created, deleted or moved."""
        state = self._rings.get(ring, _State())
        state.end_watches()
        self._queue.add_after(ring, max(SETTLE_SECONDS, state.due - self._clock.monotonic()))

    def passed(self, ring: RingName) -> None:
        """Count the ring and watch it, unless it is watched and has the same scope."""
        state, snapshot = self._rings.get(ring, _State()), self._cache.snapshot(ring)
        if not state.watches or snapshot is None or state.scope != _scope_of(snapshot):
            self._queue.add_after(ring, max(0.0, state.due - self._clock.monotonic()))

    async def run(self) -> None:
        """Count and watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            await self._queue.run(partial(self._reconcile, group), concurrency=CONCURRENCY)

    async def _reconcile(self, group: asyncio.TaskGroup, name: RingName) -> None:
        state = self._rings.setdefault(name, _State())
        state.end_watches()
        snapshot = self._cache.snapshot(name)
        if snapshot is None or snapshot.tally is not None:
            del self._rings[name]
            return
        began = self._clock.monotonic()
        present = parts_of(snapshot)
        state.parts = {p: known for p, known in state.parts.items() if p in present}
        listed = await self._count(snapshot, state)
        state.moves.clear()
        now = self._clock.monotonic()
        least, most = COUNTS_SECONDS
        state.due = now + min(max(SHARE * (now - began), least), most)
        state.scope = _scope_of(snapshot)
        self._on_counted(name)
        state.watches = [
            group.create_task(self._await_change(snapshot, *each), name=f"watch {name}")
            for each in listed
        ]

    async def _count(
        self, snapshot: RingSnapshot, state: _State
    ) -> list[tuple[Store[PartialObject], str]]:
        """Count the parts that can be read; return their stores, and the versions counted."""
        found = list[tuple[Store[PartialObject], str]]()
        labels = selector_text(snapshot.ring.spec.object_selector)
        for main in snapshot.resources:
            whole = Part(snapshot.name, main.id)
            with self._noting(whole):
                resource = await self._objects.find(main.id)
                for namespace in requests_of(resource, scope_of(snapshot)):
                    part = whole._replace(namespace=namespace)
                    if part not in self._unread:
                        with self._noting(part):
                            store = self._objects.of(resource, labels, namespace=namespace)
                            state.parts[part], version = await _counted(snapshot, store)
                            found.append((store, version))
        return found

    @contextmanager
    def _noting(self, part: Part) -> Iterator[None]:
        try:
            with naming_the_rule(part.resource):
                yield
        except ApiError as error:
            self._unread.failed(part, Unreadable(part, error))

    async def _await_change(
        self, counted: RingSnapshot, store: Store[PartialObject], version: str
    ) -> None:
        """Wait until an object is created or deleted, or the watch ends; then count again.

        Without the right to watch, the next pass counts.
        """
        try:
            async with aclosing(store.watch(version)) as events:
                async for event in events:
                    if self._changes(counted, event):
                        break
        except (Forbidden, NotFound):
            return
        except ApiError:
            pass  # whatever ended the watch, the count after it begins another
        self.moved(counted.name)

    def _changes(self, counted: RingSnapshot, event: WatchEvent[PartialObject]) -> bool:
        """Return whether an event changes the number of objects in scope; most events do not."""
        match event:
            case Removed(obj) | Changed(obj, is_new=True):
                now = self._cache.snapshot(counted.name)
                return counted.selects(obj) or (now is not None and now.selects(obj))
            case _:
                return False


def _scope_of(snapshot: RingSnapshot) -> tuple[object, ...]:
    """Return what objects a ring has depends on."""
    meta = snapshot.ring.metadata
    return meta.uid, meta.generation, snapshot.namespaces


async def _counted(snapshot: RingSnapshot, store: Store[PartialObject]) -> tuple[_Counts, str]:
    """Return the numbers of the objects in scope, and the version of the list."""
    counts = _Counts()

    def note(obj: PartialObject) -> bool:
        if snapshot.selects(obj):
            counts[snapshot.owner_of(obj), snapshot.is_draining(obj)] += 1
        return False

    listed = await store.list(note)
    return counts, listed.resource_version

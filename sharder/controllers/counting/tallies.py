"""Count the objects of rings whose strategy sticks, on every replica.

Each main resource of such a ring has one watch of metadata that feeds the tally, or one watch per
namespace while there are few namespaces.  Other rings cost nothing (docs/placement.md, "The
tally").
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from sharder.controllers.cache_events import Subscriber
from sharder.controllers.counting.tally_watch import TallyPorts, TallyWatch
from sharder.controllers.scope import WHOLE, Part, ResourceKey, scope_of
from sharder.core.names import GroupResource, RingName
from sharder.core.placement.counting.tally import AGE_SECONDS, Tally
from sharder.core.ring.snapshot import RingSnapshot

_NAMESPACES = GroupResource("", "namespaces")


class _Running(NamedTuple):
    counting: TallyWatch
    task: asyncio.Task[None]


@dataclass(slots=True)
class _CountedRing:
    """State of one ring."""

    tally: Tally
    scope: tuple[object, ...] = ()
    namespaces: frozenset[str] = frozenset()
    wanted: set[Part] = field(default_factory=set)
    unlisted: set[Part] = field(default_factory=set)
    """The wanted parts that have not been counted yet."""
    given_up: set[Part] = field(default_factory=set)
    """The wanted parts that cannot be read: the tally does not wait for them."""
    running: dict[Part, _Running] = field(default_factory=dict)
    """The wanted parts, and previous parts until the wanted parts cover their objects."""


class Tallies:
    """Runs the watches that feed the tallies of all rings."""

    def __init__(self, ports: TallyPorts) -> None:
        self._cache = ports.cache
        self._clock = ports.clock
        self._ports = ports
        self._rings: dict[RingName, _CountedRing] = {}
        self._stale: dict[RingName, frozenset[str]] = {}
        """Rings that have changed, and the namespaces that were known at that time."""
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Count until cancelled."""
        self._rings.clear()
        changed = self._ring_changed
        with self._cache.subscribed(Subscriber(ring=changed, scope=lambda ring, _: changed(ring))):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._age(), name="age tallies")
                while True:
                    self._changed.clear()
                    while self._stale:
                        self._adjust(*self._stale.popitem(), group)
                        await self._clock.sleep(0)  # a namespace can affect a thousand rings
                    await self._changed.wait()

    def _ring_changed(self, ring: RingName) -> None:
        """Record the namespaces that are known now: the snapshot was built just before."""
        snapshot = self._cache.snapshot(ring)
        counts = snapshot is not None and snapshot.tally is not None
        self._stale[ring] = self._cache.namespaces.known if counts else frozenset()
        self._changed.set()

    async def _age(self) -> None:
        while True:
            await self._clock.sleep(AGE_SECONDS)
            for state in self._rings.values():
                state.tally.age()
                for running in state.running.values():
                    running.counting.recheck()  # drops objects of namespaces that are not selected

    def _adjust(self, ring: RingName, known: frozenset[str], group: asyncio.TaskGroup) -> None:
        """Start and stop watches if the ring's scope has changed."""
        snapshot = self._cache.snapshot(ring)
        tally = None if snapshot is None else snapshot.tally
        state = self._rings.get(ring)
        if state is not None and state.tally is not tally:
            _end(self._rings.pop(ring))
            state = None
        if snapshot is None or tally is None:
            return
        if state is None:
            state = self._rings[ring] = _CountedRing(tally)
            tally.synced = False
            tally.clear()  # entries of watches that ended with an error
        scope = snapshot.namespaces, snapshot.is_split, snapshot.cluster_scoped
        if state.scope != scope:
            state.scope = scope
            self._update_watches(state, snapshot, known, group)
        for running in state.running.values():
            running.counting.recheck()

    def _update_watches(
        self,
        state: _CountedRing,
        snapshot: RingSnapshot,
        known: frozenset[str],
        group: asyncio.TaskGroup,
    ) -> None:
        """Start and stop watches for the current scope.

        New namespaces start empty, and deleted namespaces become empty: the running watches show
        their changes.  Namespaces that are selected because their labels changed can have any
        objects, so these are listed.
        """
        come = snapshot.namespaces - state.namespaces
        came_full = {n for n in come if not self._cache.namespaces.is_fresh(snapshot.name, n)}
        relabelled = came_full or (state.namespaces - snapshot.namespaces) & known
        if came_full:
            state.tally.synced = False
        state.namespaces = snapshot.namespaces
        state.wanted = set(_parts_of(snapshot))
        again = {part for part in state.wanted if relabelled and _spans(part, snapshot)}
        for part in again & state.running.keys():
            state.running.pop(part).task.cancel()
        state.unlisted &= state.wanted
        state.given_up &= state.wanted
        for part in sorted(state.wanted - state.running.keys()):
            state.unlisted.add(part)
            counting = TallyWatch(
                self._ports,
                part=part,
                tally=state.tally,
                listed=partial(self._listed, state, group),
                unreadable=partial(self._give_up, state, group),
            )
            task = group.create_task(counting.run(), name=f"count {part}")
            state.running[part] = _Running(counting, task)
        self._settle(state, group)

    def _listed(self, state: _CountedRing, group: asyncio.TaskGroup, part: Part) -> None:
        state.unlisted.discard(part)
        state.given_up.discard(part)
        self._settle(state, group)

    def _give_up(self, state: _CountedRing, group: asyncio.TaskGroup, part: Part) -> None:
        """Continue without a part that cannot be read; the resync reports it."""
        if part in state.wanted:
            state.given_up.add(part)
            self._settle(state, group)

    def _settle(self, state: _CountedRing, group: asyncio.TaskGroup) -> None:
        """Stop the watches whose objects the wanted parts cover."""
        for part in state.running.keys() - state.wanted:
            if not any(part.includes(it) or it.includes(part) for it in state.unlisted):
                state.running.pop(part).task.cancel()
                steps = state.tally.dropping(part)
                group.create_task(self._take(steps), name=f"drop {part}")
        state.tally.unread = tuple(sorted(map(str, state.given_up)))
        if state.unlisted <= state.given_up and not state.wanted <= state.given_up:
            state.tally.synced = True

    async def _take(self, steps: Iterator[None]) -> None:
        for _ in steps:
            await self._clock.sleep(0)


def _parts_of(snapshot: RingSnapshot) -> Iterator[Part]:
    for resource in snapshot.resources:
        key = ResourceKey(snapshot.name, resource.id)
        namespaces = WHOLE if resource.id in snapshot.cluster_scoped else scope_of(snapshot)
        yield from (Part(key, namespace) for namespace in namespaces)


def _spans(part: Part, snapshot: RingSnapshot) -> bool:
    """Return whether one watch can show objects of namespaces in and out of scope."""
    if part.resource in snapshot.cluster_scoped:
        return part.resource == _NAMESPACES
    return not part.namespace


def _end(state: _CountedRing) -> None:
    for running in state.running.values():
        running.task.cancel()

"""Count the objects of rings whose strategy sticks, and act on changes of their tallies.

Each main resource of such a ring has one watch of metadata that feeds the tally, on every replica,
or one watch per namespace while there are few namespaces.  Other rings cost nothing.  Only the
leader acts on changes, soon but not too often (docs/placement.md, "The tally").
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Final, NamedTuple, NoReturn

from sharder.controllers.cache_events import Subscriber
from sharder.controllers.counting.tally_watch import TallyPorts, TallyWatch
from sharder.controllers.ports import Ports
from sharder.controllers.scope import WHOLE, Part, ResourceKey, scope_of
from sharder.core.leases.membership import Standing
from sharder.core.movement.desired import excess_of
from sharder.core.names import GroupResource, RingName, ShardName
from sharder.core.placement.counting.tally import AGE_SECONDS, Tally
from sharder.core.placement.placer import Placer
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


POLL_SECONDS: Final = 0.5
"""Seconds between two checks."""

RETRY_SECONDS: Final = 1.0
"""Seconds between two attempts to assign waiting objects after departures; with the poll and the
write, an object waits less than 2 s."""

PAUSE_SECONDS: Final = 15.0
"""Seconds before another pass is requested for the same excess: some cannot be drained, but a
failed drain can succeed later."""


@dataclass(slots=True)
class _CheckedTally:
    """A ring's tally at the last check."""

    tally: Tally
    placer: Placer | None = None
    changes: int = -1
    departures: int = 0
    """The number of departures when waiting objects were last retried."""
    tried_at: float = -inf
    excess: Mapping[ShardName, int] | None = None
    """None before everything was listed."""
    requested_at: float = 0.0
    unread: tuple[str, ...] = ()
    """The parts that could not be read, at the last report."""


class TallyMonitor:
    """Polls every ring's tally."""

    def __init__(self, ports: Ports, recheck: Callable[[RingName], None]) -> None:
        """`recheck` retries the ring's unassigned objects: there is capacity."""
        self._cache = ports.cache
        self._resync = ports.resync_ring
        self._recheck = recheck
        self._report = ports.on_change
        self._clock = ports.clock
        self._seen: dict[RingName, _CheckedTally] = {}

    async def run(self) -> NoReturn:
        """Poll until cancelled."""
        while True:
            rings = self._cache.rings()
            self._seen = {ring: seen for ring, seen in self._seen.items() if ring in rings}
            for ring in rings:
                snapshot = self._cache.snapshot(ring)
                if snapshot is not None and snapshot.tally is not None:
                    self._check(snapshot, snapshot.tally)
            await self._clock.sleep(POLL_SECONDS)

    def _check(self, snapshot: RingSnapshot, tally: Tally) -> None:
        seen = self._seen.get(snapshot.name)
        if seen is None or seen.tally is not tally:
            seen = self._seen[snapshot.name] = _CheckedTally(tally)
        if tally.unread != seen.unread:
            seen.unread = tally.unread
            self._report(snapshot.name)
        if not tally.synced:
            seen.excess = None
            return
        now = self._clock.monotonic()
        is_news = seen.changes != tally.changes or seen.placer is not snapshot.placer
        seen.changes, seen.placer = tally.changes, snapshot.placer
        if is_news or seen.excess is None or seen.excess:
            self._request_pass(snapshot, seen, now)
        self._retry_waiting(snapshot, tally, seen, now)
        if is_news:
            self._report(snapshot.name)

    def _request_pass(self, snapshot: RingSnapshot, seen: _CheckedTally, now: float) -> None:
        """Request a pass if a shard has too many objects, or after the first list."""
        before, excess = seen.excess, excess_of(snapshot)
        seen.excess = excess
        is_due = bool(excess) and now >= seen.requested_at + PAUSE_SECONDS
        if before is None or _grows(before, excess) or is_due:
            seen.requested_at = now
            self._resync(snapshot.name)

    def _retry_waiting(
        self, snapshot: RingSnapshot, tally: Tally, seen: _CheckedTally, now: float
    ) -> None:
        """Retry waiting objects after departures; the last departure is never missed.

        Objects whose shard is gone wait too, but only a pass finds them.
        """
        standing_of = snapshot.members.standing_of
        orphaned = any(standing_of(shard) is Standing.GONE for shard in tally.by_shard())
        # The objects of an evacuating shard that found no capacity wait too.
        if not snapshot.ring.spec.movement.paused:
            orphaned |= any(map(tally.staying_on, snapshot.placer.layout.evacuating))
        if not (tally.unassigned or orphaned):
            seen.departures = tally.departures
        elif tally.departures != seen.departures and now >= seen.tried_at + RETRY_SECONDS:
            seen.departures, seen.tried_at = tally.departures, now
            (self._resync if orphaned else self._recheck)(snapshot.name)


def _grows(before: Mapping[ShardName, int], excess: Mapping[ShardName, int]) -> bool:
    """Return whether any shard's excess grows; a shrinking excess is being drained."""
    return any(many > before.get(shard, 0) for shard, many in excess.items())

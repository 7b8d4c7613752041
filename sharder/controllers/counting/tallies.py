"""Count the objects of rings whose strategy sticks, and act on changes of their tallies.

Each main resource of such a ring has one watch of metadata that feeds the tally, on every replica,
or one watch per namespace while there are few namespaces.  Other rings cost nothing.  Only the
leader acts on changes, soon but not too often (docs/placement.md, "The tally").
"""

import asyncio
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Final, NoReturn

from sharder.controllers.cache import Subscriber
from sharder.controllers.counting.tally_watch import TallyPorts, TallyWatch
from sharder.controllers.counting.unread_parts import BACKOFF
from sharder.controllers.ports import Ports
from sharder.controllers.scope import NAMESPACES, Part, parts_of
from sharder.core.leases.membership import Standing
from sharder.core.movement.desired import excess_of
from sharder.core.names import RingName, ShardName
from sharder.core.placement.placer import Placer
from sharder.core.placement.tally import AGE_SECONDS, Tally
from sharder.core.ring.snapshot import RingSnapshot
from sharder.runtime.event_loop import in_slices
from sharder.runtime.workqueue import WorkQueue


@dataclass(slots=True)
class _CountedRing:
    """State of one ring."""

    tally: Tally
    namespaces: frozenset[str] = frozenset()
    wanted: set[Part] = field(default_factory=set)
    watches: dict[Part, TallyWatch] = field(default_factory=dict)
    """Those of the wanted parts, and of previous parts until the wanted parts cover their
    objects."""


class Tallies:
    """Runs the watches that feed the tallies of all rings."""

    def __init__(self, ports: TallyPorts) -> None:
        self._cache = ports.cache
        self._clock = ports.clock
        self._ports = ports
        self._rings: dict[RingName, _CountedRing] = {}

    async def run(self) -> None:
        """Count until cancelled."""
        self._rings.clear()
        ports = self._ports
        queue = WorkQueue[RingName](clock=ports.clock, rng=ports.rng, backoff=BACKOFF)
        subscriber = Subscriber(ring=queue.add, scope=lambda ring, _: queue.add(ring))
        with self._cache.subscribed(subscriber):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._age(), name="age tallies")
                await queue.run(partial(self._adjust, group), concurrency=1)

    async def _age(self) -> None:
        while True:
            await self._clock.sleep(AGE_SECONDS)
            for state in self._rings.values():
                state.tally.age()
                for watch in state.watches.values():
                    watch.recheck()  # drops objects of namespaces that are not selected

    async def _adjust(self, group: asyncio.TaskGroup, ring: RingName) -> None:
        """Start and stop watches if the ring's scope has changed."""
        snapshot = self._cache.snapshot(ring)
        tally = None if snapshot is None else snapshot.tally
        state = self._rings.get(ring)
        if state is not None and state.tally is not tally:
            for watch in self._rings.pop(ring).watches.values():
                watch.stop()
            state = None
        if snapshot is None or tally is None:
            return
        if state is None:
            state = self._rings[ring] = _CountedRing(tally)
            tally.synced = False
            tally.clear()  # entries of watches that ended with an error
        self._update_watches(state, snapshot, group)
        for watch in state.watches.values():
            watch.recheck()

    def _update_watches(
        self, state: _CountedRing, snapshot: RingSnapshot, group: asyncio.TaskGroup
    ) -> None:
        """Start and stop watches for the current scope.

        New namespaces start empty, and deleted namespaces become empty: the running watches show
        their changes.  Namespaces that are selected because their labels changed can have any
        objects, so these are listed.
        """
        come, gone = snapshot.namespaces - state.namespaces, state.namespaces - snapshot.namespaces
        came_full = {n for n in come if not self._cache.namespaces.is_fresh(snapshot.name, n)}
        is_relabelled = came_full or gone & self._cache.namespaces.known
        if came_full:
            state.tally.synced = False
        state.namespaces, state.wanted = snapshot.namespaces, parts_of(snapshot)
        settle = partial(self._settle, state, group)
        for part in sorted(state.wanted):
            before = state.watches.get(part)
            if before is None or (is_relabelled and _spans(part, snapshot)):
                watch = state.watches[part] = TallyWatch(
                    self._ports, group, part=part, tally=state.tally, on_change=settle
                )
                if before is not None:
                    before.stop()
                    watch.is_given_up = before.is_given_up  # until it can be listed
        settle()

    def _settle(self, state: _CountedRing, group: asyncio.TaskGroup) -> None:
        """Stop the watches whose objects the wanted parts cover.

        The tally does not wait for parts that cannot be read; the resync reports them.
        """
        wanted = {part: state.watches[part] for part in state.wanted}
        unlisted = [part for part, watch in wanted.items() if not watch.is_listed]
        given_up = [part for part, watch in wanted.items() if watch.is_given_up]
        for part in state.watches.keys() - wanted.keys():
            if not any(part.includes(it) or it.includes(part) for it in unlisted):
                state.watches.pop(part).stop()
                leaving = state.tally.leave(part)
                group.create_task(self._drop(state.tally, leaving), name=f"drop {part}")
        state.tally.unread = tuple(sorted(map(str, given_up)))
        if set(unlisted) <= set(given_up) and len(given_up) < len(wanted):
            state.tally.synced = True

    async def _drop(self, tally: Tally, part: Hashable) -> None:
        """Forget the objects of a part, unless another part has them."""
        async for identity in in_slices(tally.shown_by(part), self._clock):
            tally.see(part, identity, None)


def _spans(part: Part, snapshot: RingSnapshot) -> bool:
    """Return whether one watch can show objects of namespaces in and out of scope."""
    if part.resource in snapshot.cluster_scoped:
        return part.resource == NAMESPACES
    return not part.namespace


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
    basis: tuple[int, Placer, tuple[str, ...]] | None = None
    """What the counts, the ceilings and the unread parts were."""
    departures: int = 0
    """The number of departures when waiting objects were last retried."""
    tried_at: float = -inf
    excess: Mapping[ShardName, int] | None = None
    """None before everything was listed."""
    requested_at: float = 0.0


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
        basis = tally.changes, snapshot.placer, tally.unread
        is_news, seen.basis = seen.basis != basis, basis
        if is_news:
            self._report(snapshot.name)
        if not tally.synced:
            seen.excess = None
            return
        now = self._clock.monotonic()
        if is_news or seen.excess is None or seen.excess:
            self._request_pass(snapshot, seen, now)
        self._retry_waiting(snapshot, tally, seen, now)

    def _request_pass(self, snapshot: RingSnapshot, seen: _CheckedTally, now: float) -> None:
        """Request a pass if a shard has too many objects, or after the first list."""
        before, excess = seen.excess, excess_of(snapshot)
        seen.excess = excess
        is_due = bool(excess) and now >= seen.requested_at + PAUSE_SECONDS
        # A shrinking excess is being drained.
        grows = before is None or any(many > before.get(s, 0) for s, many in excess.items())
        if grows or is_due:
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

"""Rebuild changed rings in slices, and notify subscribers.

A thousand Leases or namespaces can appear at the same time, and one namespace can affect a
thousand rings; each changed ring needs a new snapshot.  Pauses between the slices leave the event
loop to admission; during a pause some rings are rebuilt and some are not.

This is safe because there are two kinds of change.  A change that can protect objects, such as
another spec or a list of Leases, *blocks*: no step of the ring is written until its snapshot
includes the change.  All other changes (namespaces, counts, a Lease) only add or remove work, so a
step that was decided without them is late, not wrong.

A client that can write Leases can change a ring's members any number of times per second, and each
change invalidates the decisions in progress.  So these changes are applied at a limited rate per
ring, and long work, such as a rescue, makes progress.  `Membership.is_back` reports a single
returned shard immediately.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sharder.core.api.lease import Lease
from sharder.core.names import ObjectRef, RingName
from sharder.runtime.clock import Clock
from sharder.runtime.event_loop import SLICE_SECONDS

REST = 4
"""The pause after a slice is this many times as long as the slice: other tasks get four fifths of
the time."""

PIECE = 16
"""Leases in one batch of notifications."""

BURST = 8
"""How many changes of a ring's Leases are applied without a delay."""

PACE_SECONDS = 2.0
"""Seconds between two changes of a ring's Leases after the burst."""


@dataclass(frozen=True, slots=True)
class Pace:
    """A token bucket for the changes of one ring."""

    left: float = BURST
    at: float = 0.0

    def then(self, now: float) -> "Pace":
        """Return the bucket at `now`."""
        return Pace(min(BURST, self.left + (now - self.at) / PACE_SECONDS), now)


class RebuildThrottle:
    """Rebuilds changed rings in slices, and at a limited rate."""

    def __init__(
        self,
        rebuild: Callable[[RingName], None],
        notify: Callable[[Iterable[Lease]], None],
        clock: Clock,
    ) -> None:
        """`rebuild` rebuilds one ring, `notify` reports Leases of rings that are up to date."""
        self._rebuild = rebuild
        self._notify = notify
        self._clock = clock
        self._rests_until = 0.0
        # Dictionaries keep the order of insertion: rings are rebuilt in the order of their
        # changes.
        self._blocking: dict[RingName, None] = {}
        self._others: dict[RingName, None] = {}
        self._leases: list[Lease] = []
        self._paced: set[RingName] = set()
        """Rings that wait for a token."""
        self._paces: dict[RingName, Pace] = {}
        self._with: dict[RingName, dict[ObjectRef, Lease]] = {}
        """Leases that are reported together with their ring."""
        self._asked: set[RingName] = set()
        """Rings for which `is_pending` returned True: the caller waits for the rebuild."""
        self._late = asyncio.Event()
        self._changing = asyncio.Event()
        """Set while a ring's changes are paced."""
        self._began = False
        self.caught_up = False
        """Whether every ring was rebuilt at least once."""

    def begin(self, rings: Iterable[RingName]) -> None:
        """Rebuild these rings soon, in `run`; changes that were added earlier are dropped."""
        self._began = True
        self._blocking.update(dict.fromkeys(rings))
        self._late.set()

    def add(self, affected: Iterable[RingName], *leases: Lease) -> None:
        """Add a change of Leases or rings; no step of the rings is valid until the rebuild."""
        self._blocking.update(dict.fromkeys(affected))
        self._leases.extend(leases)
        self._start()

    def add_harmless(self, affected: Iterable[RingName]) -> None:
        """Add a change that does not invalidate any step."""
        self._others.update(dict.fromkeys(affected))
        self._start()

    def add_paced(self, affected: Iterable[RingName], lease: Lease) -> None:
        """Add a harmless change of a Lease; its rings are rebuilt at a limited rate."""
        affected = frozenset(affected)
        for ring in affected:
            self._with.setdefault(ring, {})[lease.metadata.ref] = lease
        if not affected:
            self._leases.append(lease)
        self._paced |= affected
        self._let_pass(affected)
        if self._paces:
            self._changing.set()
        self._start()

    def notify_soon(self, leases: Iterable[Lease]) -> None:
        """Report Leases after the current rebuild of their ring."""
        self._leases.extend(leases)

    def is_pending(self, ring: RingName) -> bool:
        """Return whether a blocking change of the ring is pending; the rebuild is reported."""
        if ring not in self._blocking:
            return False
        self._asked.add(ring)
        return True

    def was_asked(self, ring: RingName) -> bool:
        """Return whether `is_pending` returned True since the last call of this method."""
        was_asked = ring in self._asked
        self._asked.discard(ring)
        return was_asked

    async def run(self) -> None:
        """Rebuild waiting rings until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._catch_up(), name="late rings")
            group.create_task(self._keep_pace(), name="paced rings")

    async def _keep_pace(self) -> None:
        while True:
            await self._changing.wait()
            await self._clock.sleep(PACE_SECONDS / 4)
            self._changing.clear()
            now = self._clock.monotonic()
            # A full bucket need not be kept.
            self._paces = {ring: p for ring, p in self._paces.items() if p.then(now).left < BURST}
            self._let_pass(sorted(self._paced))
            if self._others:
                self._start()
            if self._paces:
                self._changing.set()

    def _let_pass(self, rings: Iterable[RingName]) -> None:
        """Take a token for each ring, and enqueue the rings that got one."""
        now = self._clock.monotonic()
        for ring in rings:
            pace = self._paces.get(ring, Pace(at=now)).then(now)
            if pace.left >= 1:
                self._paces[ring] = replace(pace, left=pace.left - 1)
                self._paced.discard(ring)
                self._others[ring] = None

    async def _catch_up(self) -> None:
        while True:
            await self._late.wait()
            await self._clock.sleep(self._rest())
            self._late.clear()
            self._work()

    def _start(self) -> None:
        """Rebuild now, unless a pause is due."""
        if not self._began:
            self._blocking, self._others, self._leases = {}, {}, []
            self._with.clear()
        elif (self._blocking or self._others) and self._rest():
            self._late.set()
        else:
            self._work()

    def _rest(self) -> float:
        """Return the remaining seconds of the pause; 0 until every ring was rebuilt once."""
        if not self.caught_up:
            return 0.0
        return max(0.0, self._rests_until - self._clock.monotonic())

    def _work(self) -> None:
        """Rebuild as many rings as fit into a slice, at least one."""
        began = now = self._clock.monotonic()
        while (self._blocking or self._others) and now - began < SLICE_SECONDS:
            if not self._blocking:
                self._notify_leases()
            name = next(iter(self._blocking or self._others))
            self._rebuild(name)
            # Remove it only now: a ring that failed to rebuild must stay pending.
            self._blocking.pop(name, None)
            self._others.pop(name, None)
            self._paced.discard(name)
            self._notify(self._with.pop(name, {}).values())
            now = self._clock.monotonic()
        while self._leases and not self._blocking and now - began < SLICE_SECONDS:
            self._notify_leases()
            now = self._clock.monotonic()
        self._rests_until = now + REST * (now - began)
        if self._blocking or self._others or self._leases:
            self._late.set()
        else:
            self.caught_up = True

    def _notify_leases(self) -> None:
        """Notify of one batch of Leases: a list can contain thousands."""
        leases, self._leases = self._leases[:PIECE], self._leases[PIECE:]
        if leases:
            self._notify(leases)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """The callbacks of one subscriber; they run on the event loop and must not block."""

    ring: Callable[[RingName], None]
    """The ring, its members or its namespaces changed, or the ring was deleted."""
    steps: Callable[[RingName], None]
    """The ring changed so that any of its objects can need another step."""
    scope: Callable[[RingName, frozenset[str]], None]
    """Only the ring's namespaces changed; these were added to its scope."""
    lease: Callable[[ObjectRef], None]
    """A Lease was written or deleted."""


class Subscribers:
    """All subscribers, in the order of subscription."""

    def __init__(self) -> None:
        self._all: list[Subscriber] = []

    @contextmanager
    def adding(self, subscriber: Subscriber) -> Iterator[None]:
        """Also notify `subscriber` while the body runs."""
        self._all.append(subscriber)
        try:
            yield
        finally:
            self._all.remove(subscriber)

    def notify_ring(self, name: RingName, *, steps: bool) -> None:
        """Notify of a changed ring; with `steps`, objects can need another step."""
        for subscriber in self._all:
            subscriber.ring(name)
            if steps:
                subscriber.steps(name)

    def notify_scope(self, name: RingName, come: frozenset[str]) -> None:
        """Notify of changed namespaces; `come` were added."""
        for subscriber in self._all:
            subscriber.scope(name, come)

    def notify_leases(self, leases: Iterable[Lease]) -> None:
        """Notify of Leases that were written or deleted."""
        for subscriber in self._all:
            for lease in leases:
                subscriber.lease(lease.metadata.ref)

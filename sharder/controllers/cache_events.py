"""Rebuild changed rings in slices, and notify subscribers.

A thousand Leases or namespaces can appear at the same moment, or one namespace can concern a
thousand rings, and each change means a snapshot.  Pauses in between leave the event loop to
admission; meanwhile some rings are rebuilt and some are not.

That is safe because there are two kinds of change.  A change that may protect objects, such as
another spec or a list of Leases, *blocks*: no step of the ring is written until its snapshot
includes the change.  Every other change (namespaces, counts, a Lease) only widens or narrows the
work, so a step decided without it is late, not wrong.

A client that can write Leases can change a ring's members any number of times per second, and each
change invalidates the decisions under way.  Such changes are therefore applied at a bounded pace
per ring, so that long work, such as a rescue, makes progress.  `Membership.is_back` reports a
single returned shard at once.
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
"""The loop rests so many times as long as the work took: others get four fifths of the time."""

PIECE = 16
"""Leases in one batch of notifications."""

BURST = 8
"""Changes of a ring's Leases that are applied at once."""

PACE_SECONDS = 2.0
"""Between further changes while they keep coming."""


@dataclass(frozen=True, slots=True)
class Pace:
    """A token bucket: how many changes of one ring can be applied at once."""

    left: float = BURST
    at: float = 0.0

    def then(self, now: float) -> "Pace":
        """Return the bucket at `now`."""
        return Pace(min(BURST, self.left + (now - self.at) / PACE_SECONDS), now)


class RebuildThrottle:
    """Rebuilds rings when there is time for them."""

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
        # Dictionaries keep the order: first come, first served.
        self._blocking: dict[RingName, None] = {}
        self._others: dict[RingName, None] = {}
        self._leases: list[Lease] = []
        self._paced: set[RingName] = set()
        """Rings that wait for a token."""
        self._paces: dict[RingName, Pace] = {}
        self._with: dict[RingName, dict[ObjectRef, Lease]] = {}
        """Leases that are reported together with their ring."""
        self._asked: set[RingName] = set()
        """Rings whose pending state was asked for: the caller waits for the rebuild."""
        self._late = asyncio.Event()
        self._began = False
        self.caught_up = False
        """Whether every ring was rebuilt once."""

    def begin(self, rings: Iterable[RingName]) -> None:
        """Rebuild these rings, apart from the list that came last; drop what was added before."""
        self._began = True
        self._blocking.update(dict.fromkeys(rings))
        self._late.set()

    def add(self, affected: Iterable[RingName], *leases: Lease) -> None:
        """Add a change of Leases or rings; no step of the rings is valid until the rebuild."""
        self._blocking.update(dict.fromkeys(affected))
        self._leases.extend(leases)
        self._start()

    def add_harmless(self, affected: Iterable[RingName]) -> None:
        """Add a change that makes no step wrong."""
        self._others.update(dict.fromkeys(affected))
        self._start()

    def add_paced(self, affected: Iterable[RingName], lease: Lease) -> None:
        """Add a change of a Lease, as harmless, at a bounded pace."""
        affected = frozenset(affected)
        for ring in affected:
            self._with.setdefault(ring, {})[lease.metadata.ref] = lease
        if not affected:
            self._leases.append(lease)
        self._paced |= affected
        self._let_pass(affected)
        self._start()

    def notify_soon(self, leases: Iterable[Lease]) -> None:
        """Report Leases whose ring is being rebuilt now."""
        self._leases.extend(leases)

    def is_pending(self, ring: RingName) -> bool:
        """Return whether the ring waits for a blocking change; its end will be reported."""
        if ring not in self._blocking:
            return False
        self._asked.add(ring)
        return True

    def was_asked(self, ring: RingName) -> bool:
        """Return, once, whether `is_pending` was True for a caller."""
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
            await self._clock.sleep(PACE_SECONDS / 4)
            now = self._clock.monotonic()
            # A full bucket need not be kept.
            self._paces = {ring: p for ring, p in self._paces.items() if p.then(now).left < BURST}
            self._let_pass(sorted(self._paced))
            if self._others:
                self._start()

    def _let_pass(self, rings: Iterable[RingName]) -> None:
        """Rebuild the rings that have a token."""
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
        """Work now, unless the event loop has to rest."""
        if not self._began:
            self._blocking, self._others, self._leases = {}, {}, []
            self._with.clear()
        elif (self._blocking or self._others) and self._rest():
            self._late.set()
        else:
            self._work()

    def _rest(self) -> float:
        """Return for how many more seconds the loop rests; never during the start."""
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
        """Notify of one batch of Leases: a list can bring thousands."""
        leases, self._leases = self._leases[:PIECE], self._leases[PIECE:]
        if leases:
            self._notify(leases)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """Callbacks of one subscriber; called on the event loop, must not block."""

    ring: Callable[[RingName], None]
    """The ring, its members or its namespaces changed, or the ring is gone."""
    steps: Callable[[RingName], None]
    """The same, and any object of the ring can need another step."""
    scope: Callable[[RingName, frozenset[str]], None]
    """Only the ring's namespaces changed; these were added to its scope."""
    lease: Callable[[ObjectRef], None]
    """A Lease was written, or is gone."""


class Subscribers:
    """All subscribers, in the order of subscription."""

    def __init__(self) -> None:
        self._all: list[Subscriber] = []

    @contextmanager
    def adding(self, subscriber: Subscriber) -> Iterator[None]:
        """Notify `subscriber` too while the body runs."""
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

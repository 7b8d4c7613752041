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
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from sharder.core.names import ObjectRef, RingName
from sharder.runtime.clock import Clock
from sharder.runtime.event_loop import SLICE_SECONDS, in_slices

REST = 4
"""The pause after a slice is this many times as long as the slice: other tasks get four fifths of
the time."""

BURST = 8
"""How many changes of a ring's Leases are applied without a delay."""

PACE_SECONDS = 2.0
"""Seconds between two changes of a ring's Leases after the burst."""


class RebuildThrottle:
    """Rebuilds changed rings in slices, and at a limited rate."""

    def __init__(
        self,
        rebuild: Callable[[RingName], Awaitable[Iterable[ObjectRef]]],
        notify: Callable[[ObjectRef], None],
        clock: Clock,
    ) -> None:
        """`rebuild` rebuilds a ring and returns Leases to report, `notify` reports a Lease."""
        self._rebuild = rebuild
        self._notify = notify
        self._clock = clock
        # Dictionaries keep the order of insertion: rings are rebuilt in the order of their
        # changes.
        self._blocking: dict[RingName, None] = {}
        self._others: dict[RingName, float] = {}
        """From when on (monotonic seconds) each ring with other changes is rebuilt."""
        self._paces: dict[RingName, float] = {}
        """When each ring can have a whole burst again, as in a leaky bucket."""
        self._leases: dict[RingName, dict[ObjectRef, None]] = {}
        """Leases that are reported after the rebuild of their ring."""
        self._began = asyncio.Event()
        self._due = asyncio.Event()
        self.caught_up = False
        """Whether every ring was rebuilt at least once."""

    def begin(self, rings: Iterable[RingName]) -> None:
        """Rebuild these rings, and from now on rings that change."""
        self.block(rings)
        self._began.set()

    def block(self, rings: Iterable[RingName]) -> None:
        """Rebuild rings as soon as possible; no step of them is valid until then."""
        self._blocking.update(dict.fromkeys(rings))
        self.look()

    def add(self, rings: Iterable[RingName]) -> None:
        """Rebuild rings soon, for a change that does not invalidate any step."""
        now = self._clock.monotonic()
        self._others.update(dict.fromkeys(rings, now))
        self.look()

    def add_paced(self, rings: Iterable[RingName]) -> None:
        """Rebuild rings for a harmless change of a Lease, at a limited rate."""
        now = self._clock.monotonic()
        for ring in rings:
            if ring not in self._others:
                full = max(now, self._paces.get(ring, now))
                self._paces[ring] = full + PACE_SECONDS
                self._others[ring] = full - (BURST - 1) * PACE_SECONDS
        self.look()

    def report(self, ref: ObjectRef, ring: RingName | None) -> None:
        """Report a Lease; if its ring is about to be rebuilt, after that."""
        if ring is not None and (ring in self._blocking or ring in self._others):
            self._leases.setdefault(ring, {})[ref] = None
        else:
            self._notify(ref)

    def is_pending(self, ring: RingName) -> bool:
        """Return whether a blocking change of the ring is pending."""
        return ring in self._blocking

    def look(self) -> None:
        """Wake `run` if a ring is due; call this every second too."""
        now = self._clock.monotonic()
        if self._next(now) is not None:
            self._due.set()

    async def run(self) -> None:
        """Rebuild waiting rings until cancelled."""
        await self._began.wait()
        while True:
            began = now = self._clock.monotonic()
            while now <= began + SLICE_SECONDS and (ring := self._next(now)) is not None:
                await self._work(ring)
                now = self._clock.monotonic()
            if self._next(now) is not None:
                await self._clock.sleep(REST * (now - began) if self.caught_up else 0.0)
                continue
            self.caught_up = True
            self._paces = {ring: full for ring, full in self._paces.items() if full > now}
            self._due.clear()
            await self._due.wait()

    async def _work(self, ring: RingName) -> None:
        leases = await self._rebuild(ring)
        # Remove it only now: a ring that failed to rebuild must stay pending.
        self._blocking.pop(ring, None)
        self._others.pop(ring, None)
        reported = {**self._leases.pop(ring, {}), **dict.fromkeys(leases)}
        async for ref in in_slices(reported, self._clock):
            self._notify(ref)

    def _next(self, now: float) -> RingName | None:
        due = (ring for ring, at in self._others.items() if at <= now)
        return next(iter(self._blocking), None) or next(due, None)


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

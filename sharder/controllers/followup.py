"""What a change affects is followed up at once, or together with others where many come at a time.

A thousand shards or namespaces may appear at the same moment, and each means a snapshot: without
a pause in between nobody would answer admission requests meanwhile.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from sharder.api.lease import Lease
from sharder.clock import Clock
from sharder.names import RingName

REST = 4
"""Times as long as the work took, the loop is left to others: four fifths of it."""


class FollowUp:
    """Keeps what is owed until there is time for it."""

    def __init__(
        self, catch_up: Callable[[Collection[RingName], Iterable[Lease]], None], clock: Clock
    ) -> None:
        """`catch_up` does the work for rings that are affected and Leases that have changed."""
        self._catch_up = catch_up
        self._clock = clock
        self._rests_until = 0.0
        self._rings: set[RingName] = set()
        self._leases: list[Lease] = []
        self._doubted: set[RingName] = set()
        """Rings of which somebody was told that they are owed, and waits for the work."""
        self._late = asyncio.Event()

    def add(self, affected: Iterable[RingName], *leases: Lease) -> None:
        """Follow a change up, of Leases or another; without a ring it waits only behind others."""
        self._rings.update(affected)
        self._leases.extend(leases)
        if self._rings and self._rest():
            self._late.set()
        else:
            self._settle()

    def is_owed(self, ring: RingName) -> bool:
        """Tell whether the ring waits; who asked will need to be told when it does no more."""
        if ring not in self._rings:
            return False
        self._doubted.add(ring)
        return True

    def was_doubted(self, ring: RingName) -> bool:
        """Tell, once, whether somebody heard that the ring waits."""
        doubted = ring in self._doubted
        self._doubted.discard(ring)
        return doubted

    @contextmanager
    def working(self) -> Iterator[None]:
        """Measure the work, wherever it is done."""
        began = self._clock.monotonic()
        yield
        now = self._clock.monotonic()
        self._rests_until = now + REST * (now - began)

    async def run(self) -> None:
        """Do what had to wait, until cancelled."""
        while True:
            await self._late.wait()
            await self._clock.sleep(self._rest())
            self._late.clear()
            self._settle()

    def _rest(self) -> float:
        """Return the seconds that still belong to others."""
        return max(0.0, self._rests_until - self._clock.monotonic())

    def _settle(self) -> None:
        rings, self._rings = self._rings, set()
        leases, self._leases = self._leases, []
        self._catch_up(rings, leases)

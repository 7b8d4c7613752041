"""Facts about following changes up in slices."""

from asyncio import TaskGroup
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sharder.controllers.cache_events import REST, RebuildThrottle
from sharder.core.api.lease import Lease
from sharder.core.api.meta import ObjectMeta
from sharder.core.names import RingName
from sharder.runtime.event_loop import SLICE_SECONDS
from sharder.sdk.testing.fake_clock import FakeClock, settle

RINGS = [RingName(f"ring-{number}") for number in range(30)]

WORK = SLICE_SECONDS / 4
"""Seconds that one ring takes."""

LEASE = Lease(metadata=ObjectMeta(name="shard"))


class Bench:
    """A follow-up that takes some time for each ring, and what it has done."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.done: list[RingName] = []
        self.told: list[tuple[Lease, int]] = []
        """Leases, each with how many rings had been followed up before."""
        self.fails = set[RingName]()
        self.throttle = RebuildThrottle(
            self._rebuild,
            lambda leases: self.told.extend((lease, len(self.done)) for lease in leases),
            self.clock,
        )

    def _rebuild(self, ring: RingName) -> None:
        if ring in self.fails:
            raise ValueError(ring)
        self.clock._elapsed += WORK
        self.done.append(ring)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with TaskGroup() as group:
            task = group.create_task(self.throttle.run())
            self.throttle.begin([])
            await settle()
            yield
            task.cancel()


async def test_no_more_is_done_at_once_than_fits_into_a_slice() -> None:
    bench = Bench()

    async with bench.running():
        bench.throttle.add_harmless(RINGS)
        at_once = len(bench.done)
        await bench.clock.advance(REST * SLICE_SECONDS + 1e-6)
        later = len(bench.done)
        await bench.clock.advance(60)

    assert (at_once, later) == (4, 8)
    assert bench.done == RINGS


async def test_what_may_protect_objects_goes_before_what_does_not() -> None:
    bench = Bench()

    async with bench.running():
        bench.throttle.add_harmless(RINGS)
        bench.throttle.add([RINGS[-1]], LEASE)
        pending = [bench.throttle.is_pending(ring) for ring in (RINGS[-1], RINGS[-2])]
        await bench.clock.advance(REST * SLICE_SECONDS + 1e-6)
        still_pending = bench.throttle.is_pending(RINGS[-1])
        await bench.clock.advance(60)

    assert pending == [True, False]
    assert not still_pending
    assert bench.done[4] == RINGS[-1]
    assert bench.told == [(LEASE, 5)]
    assert len(bench.done) == len(RINGS)  # it was followed up once for both


async def test_a_ring_that_could_not_be_followed_up_stays_pending() -> None:
    bench = Bench()
    bench.fails = {RINGS[0]}
    bench.throttle.begin([])

    with pytest.raises(ValueError, match="ring-0"):
        bench.throttle.add([RINGS[0]])

    assert bench.throttle.is_pending(RINGS[0])


async def test_at_the_start_the_loop_gets_its_turns_and_no_rest() -> None:
    bench = Bench()
    bench.throttle.add(RINGS, LEASE)  # before everything is listed there is nothing to follow up

    async with TaskGroup() as group:
        task = group.create_task(bench.throttle.run())
        bench.throttle.begin(RINGS)
        first = len(bench.done), bench.throttle.caught_up
        await settle()
        task.cancel()

    assert first == (0, False)  # the list that came last had its turn
    assert bench.done == RINGS
    assert bench.throttle.caught_up
    assert bench.clock.monotonic() == pytest.approx(len(RINGS) * WORK)
    assert bench.told == []

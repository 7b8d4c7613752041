"""Facts about `sharder.runtime.lease_holder`."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from sharder.core.api.lease import Lease, LeaseSpec, format_time
from sharder.core.errors import ApiError, LeaseLost
from sharder.core.leases.election import LeaseTiming
from sharder.core.names import EVACUATE_ANNOTATION, EVACUATE_ON_STOP, POD_UID_ANNOTATION
from sharder.kube.typed_stores import LEASES
from sharder.ports import Listed
from sharder.runtime.clock import SystemClock
from sharder.runtime.lease_holder import LeaseHolder
from sharder.runtime.lease_record import Candidate
from sharder.sdk.testing.fake_clock import FixedRng, settle
from tests.support.effort import share
from tests.support.fake_store import FakeStore
from tests.support.lease_holders import DOWN, REF, LateAnswer, World

EVENTS = ("cut or mended", "lost answer", "label", "restart")
STEPS = st.lists(
    st.tuples(st.floats(0.1, 7), st.sampled_from(EVENTS), st.sampled_from([0, 1])), max_size=30
)


@pytest.fixture
def cache() -> World:
    return World()


async def test_a_lease_that_is_missing_or_deleted_is_created_with_its_labels(cache: World) -> None:
    holder = cache.holder(ring="demo")
    await holder.acquire()
    lease = await cache.store.get(REF)
    now = format_time(cache.clock.now())
    assert lease.metadata.labels == lease.metadata.annotations == {"ring": "demo"}
    assert lease.spec == LeaseSpec(
        holder_identity="me",
        lease_duration_seconds=15,
        acquire_time=now,
        renew_time=now,
        lease_transitions=0,
    )

    async with cache.running(holder.keep()):
        await cache.delete()
        await cache.clock.advance(2)
    assert (await cache.store.get(REF)).metadata.labels == {"ring": "demo"}
    assert holder.valid()


class Cut(FakeStore[Lease]):
    """Is out of reach."""

    @override
    async def list(self, keep: Callable[[Lease], bool] | None = None) -> Listed[Lease]:
        raise DOWN


async def test_a_lease_is_read_while_no_watch_shows_that_it_is_renewed() -> None:
    world = World(watched=Cut(Lease, LEASES))
    first = world.holder("first")
    await first.acquire()

    async with world.running(world.holder("second").acquire()) as acquiring:
        async with world.running(first.keep()):
            await world.clock.advance(99)
        await world.clock.advance(12.8)
        assert not acquiring.done()
        await world.clock.advance(2.3)
        assert acquiring.done()
    assert world.told == []


async def test_a_deleted_lease_is_its_holders_until_it_would_have_expired(cache: World) -> None:
    first, cache.watched = cache.holder("first"), cache.store
    await first.acquire()
    async with cache.running(cache.holder("second").acquire()) as acquiring:
        await cache.clock.advance(1.5)
        await cache.delete()
        await cache.clock.advance(13.4)
        assert not acquiring.done()
        await cache.clock.advance(0.2)
        assert acquiring.done()


async def test_after_a_restart_in_our_pod_our_own_lease_is_taken_a_retry_period_later(
    cache: World,
) -> None:
    cache.pod = "uid"
    await cache.give("me")
    await cache.store.patch(REF, {"metadata": {"annotations": {POD_UID_ANNOTATION: "uid"}}})

    async with cache.running(cache.holder().acquire()):
        await cache.clock.advance(1.9)
        early = (await cache.lease()).lease_transitions
        await cache.clock.advance(2)

    assert early == 3
    assert (await cache.lease()).lease_transitions == 4


@pytest.mark.parametrize("chance", [0.01, 0.5, 0.99])
async def test_a_living_twin_of_the_same_name_keeps_its_lease(chance: float) -> None:
    cache = World()
    first = cache.holder()
    await first.acquire()
    second = LeaseHolder(
        cache.store, REF, Candidate("me"), clock=cache.clock, rng=FixedRng(chance)
    )

    async with cache.running(first.keep()), cache.running(second.acquire()) as acquiring:
        await cache.clock.advance(100)
        assert first.valid()
        assert not acquiring.done()


async def test_a_wish_to_be_evacuated_is_written_as_soon_as_no_renewal_is_under_way() -> None:
    store, answer = LateAnswer(), asyncio.Event()
    cache = World(store=store)
    holder = cache.holder()
    await holder.acquire()

    async with cache.running(holder.keep()) as keeping:
        store.late = answer
        await cache.clock.advance(2.5)
        holder.evacuate()
        answer.set()
        await settle()

        assert not keeping.done()
        assert (await store.get(REF)).metadata.annotation(EVACUATE_ANNOTATION) == EVACUATE_ON_STOP


async def test_a_request_that_hangs_does_not_hold_up_the_deadline() -> None:
    store = LateAnswer()
    timing = LeaseTiming(lease_duration=1, renew_deadline=0.02, retry_period=0.005)
    holder = LeaseHolder(
        store, REF, Candidate("me"), clock=SystemClock(), rng=FixedRng(), timing=timing
    )
    await holder.acquire()
    store.late = asyncio.Event()

    with pytest.raises(LeaseLost):
        async with asyncio.timeout(5):
            await holder.keep()


async def test_the_deadline_counts_from_when_a_renewal_was_sent() -> None:
    store, answer = LateAnswer(), asyncio.Event()
    cache = World(store=store)
    holder = cache.holder()
    await holder.acquire()

    async with cache.running(holder.keep()):
        store.late = answer
        await cache.clock.advance(2)
        await cache.clock.advance(4)
        answer.set()
        await settle()

        assert holder.left() == 6


class Link(FakeStore[Lease]):
    """One process' connection to a store that others use too."""

    cut = False

    def __init__(self, store: FakeStore[Lease]) -> None:
        super().__init__(Lease, LEASES)
        self._state = store._state

    @override
    def _stumble(self) -> None:
        if self.cut:
            raise DOWN
        super()._stumble()


class Contenders:
    """Two processes that hold the Lease in turn while things go wrong.

    `together` says how many held it, each time when one had acquired it.
    """

    def __init__(self, rng: FixedRng) -> None:
        self.cache = World()
        self.together: list[int] = []
        self.links = [Link(self.cache.store), Link(self.cache.store)]
        self.holders = [
            LeaseHolder(link, REF, Candidate(name), clock=self.cache.clock, rng=rng)
            for name, link in zip("ab", self.links, strict=True)
        ]
        self.tasks = [asyncio.create_task(self.hold(holder)) for holder in self.holders]

    async def hold(self, holder: LeaseHolder) -> None:
        while True:
            await holder.acquire()
            self.together.append([each.valid() for each in self.holders].count(True))
            with suppress(LeaseLost):
                await holder.keep()

    async def suffer(self, event: str, victim: int) -> None:
        match event:
            case "cut or mended":
                self.links[victim].cut = not self.links[victim].cut
            case "lost answer":
                self.cache.store.lose(DOWN)
            case "label":
                with suppress(ApiError):
                    await self.cache.label()
            case _:
                self.tasks[victim].cancel()
                await self.holders[victim].release()
                self.tasks[victim] = asyncio.create_task(self.hold(self.holders[victim]))

    async def run(self, steps: list[tuple[float, str, int]]) -> None:
        for seconds, event, victim in steps:
            await self.cache.clock.advance(seconds)
            await self.suffer(event, victim)
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)


@settings(max_examples=share(100))
@given(STEPS, st.floats(0, 0.99))
def test_two_candidates_never_hold_the_lease_at_once(
    steps: list[tuple[float, str, int]], chance: float
) -> None:
    async def contend() -> list[int]:
        contenders = Contenders(FixedRng(chance))
        await contenders.run(steps)
        return contenders.together

    assert set(asyncio.run(contend())) <= {1}


# Leases that are released


async def test_a_release_gets_past_labels_and_lost_answers_and_is_seen_at_once(
    cache: World,
) -> None:
    holder, cache.watched = cache.holder(), cache.store
    await holder.acquire()
    async with cache.running(holder.keep()):
        cache.store.lose(DOWN)
        await cache.clock.advance(2)
    await cache.label()

    async with cache.running(cache.holder("next").acquire()):
        await holder.release()
        await settle()
        assert (await cache.lease()).holder_identity == "next"


async def test_what_could_not_be_released_is_still_ours_to_take(cache: World) -> None:
    holder = cache.holder()
    await holder.acquire()
    cache.store.fail(DOWN, DOWN)
    await holder.release()

    async with cache.running(holder.acquire()):
        await cache.clock.advance(1)
    assert holder.valid()


@pytest.mark.parametrize("is_there", [False, True])
async def test_what_was_taken_by_a_write_that_was_cancelled_is_released(
    cache: World, is_there: bool
) -> None:
    if is_there:
        await cache.give("")
    mute = LateAnswer()
    mute._state, mute.late = cache.store._state, asyncio.Event()
    holder = LeaseHolder(mute, REF, Candidate("me"), clock=cache.clock, rng=FixedRng())
    async with cache.running(holder.acquire()):
        taken = (await cache.lease()).holder_identity

    async with cache.running(holder.release()):
        pass

    assert (taken, (await cache.lease()).holder_identity) == ("me", "")

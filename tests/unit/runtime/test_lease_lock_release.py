"""Facts about `sharder.runtime.lease_lock`: Leases that are released."""

import asyncio

import pytest

from sharder.runtime.lease_lock import LeaseHolder
from sharder.runtime.lease_record import Candidate
from sharder.sdk.testing.fake_clock import FixedRng
from tests.support.lease_locks import DOWN, REF, LateAnswer, World


@pytest.fixture
def cache() -> World:
    return World()


async def test_a_release_gets_past_labels_and_lost_answers(cache: World) -> None:
    holder = cache.holder()
    await holder.acquire()
    async with cache.running(holder.keep()):
        cache.store.lose(DOWN)
        await cache.clock.advance(2)
    await cache.label()

    await holder.release()

    assert (await cache.lease()).holder_identity == ""


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

    assert taken == "me"
    assert (await cache.lease()).holder_identity == ""

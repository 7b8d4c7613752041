"""Facts about `sharder.runtime.lease_lock`: Leases that are released."""

import asyncio

import pytest
from typing_extensions import override

from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json
from sharder.core.names import ObjectRef
from sharder.kube.typed_stores import LEASES
from sharder.runtime.lease_lock import LeaseHolder
from sharder.runtime.lease_record import Candidate
from sharder.sdk.testing.fake_clock import FixedRng
from tests.support.fake_store import FakeStore
from tests.support.lease_locks import DOWN, REF, World


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


class Mute(FakeStore[Lease]):
    """Writes, and never answers."""

    @override
    async def create(self, namespace: str, body: Json) -> Lease:
        await super().create(namespace, body)
        return await asyncio.Future()

    @override
    async def patch(self, ref: ObjectRef, body: Json) -> Lease:
        await super().patch(ref, body)
        return await asyncio.Future()


@pytest.mark.parametrize("is_there", [False, True])
async def test_what_was_taken_by_a_write_that_was_cancelled_is_released(
    cache: World, is_there: bool
) -> None:
    if is_there:
        await cache.give("")
    mute = Mute(Lease, LEASES)
    mute._state = cache.store._state
    holder = LeaseHolder(mute, REF, Candidate("me"), clock=cache.clock, rng=FixedRng())
    async with cache.running(holder.acquire()):
        taken = (await cache.lease()).holder_identity

    async with cache.running(holder.release()):
        pass

    assert taken == "me"
    assert (await cache.lease()).holder_identity == ""

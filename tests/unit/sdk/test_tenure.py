"""The Lease and the work under it: no work outlives the Lease, and it ends before it is lost."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from sharder.core.errors import LeaseLost, NotFound, Unavailable
from sharder.core.names import RING_LABEL
from sharder.sdk import Shard
from tests.support.fake_clock import settle
from tests.unit.sdk.world import (
    DRAIN,
    LEASE,
    ME,
    OWNER,
    RING,
    SETTINGS,
    TIMING,
    Controller,
    HalfWay,
    World,
    at_work,
)

OUTAGE: Sequence[Unavailable] = [Unavailable("server away")] * 20


async def test_the_lease_is_held_under_the_shards_name_and_names_its_ring() -> None:
    world = World()

    async with at_work(world, Controller()):
        lease = await world.cluster.lease_store.get(LEASE)
        assert lease.spec.holder_identity == ME
        assert lease.metadata.label(RING_LABEL) == RING


async def test_nothing_is_worked_on_while_another_holds_the_lease() -> None:
    world, controller = World(), Controller()
    await world.create_secret("one")
    async with at_work(world, Controller()):
        await world.steal_lease()

    async with at_work(world, controller):
        assert controller.started == []
        await world.clock.advance(TIMING.lease_duration + 3)
        assert controller.started == ["one"]


async def test_work_is_cancelled_before_the_lease_can_be_lost() -> None:
    world, controller = World(), Controller(is_held=True)
    await world.create_secret("one")

    async with at_work(world, controller):
        world.cluster.lease_store.fail(*OUTAGE)
        await world.clock.advance(TIMING.renew_deadline - 0.1)
        assert controller.running == {"one"}
        await world.clock.advance(0.2)

        assert controller.running == set()
        assert controller.cancelled == ["one"]


async def test_a_lease_that_could_not_be_renewed_is_not_released_either() -> None:
    world = World()

    async with at_work(world, Controller()) as (_, task):
        world.cluster.lease_store.fail(*OUTAGE[:2])
        await world.clock.advance(TIMING.renew_deadline + 0.1)

        assert isinstance(task.exception(), LeaseLost)
        assert await world.holder() == ME


async def test_work_is_cancelled_as_soon_as_another_holder_is_seen() -> None:
    world, controller = World(), Controller(is_held=True)
    await world.create_secret("one")

    async with at_work(world, controller) as (_, task):
        await world.steal_lease()
        await world.clock.advance(TIMING.retry_period)

        assert controller.cancelled == ["one"]
        assert isinstance(task.exception(), LeaseLost)


async def test_the_shard_ends_only_when_cancelled_work_has_ended() -> None:
    cleanup = asyncio.Event()
    world, controller = World(), Controller(is_held=True, cleanup=cleanup)
    await world.create_secret("one")

    async with at_work(world, controller) as (_, task):
        await world.steal_lease()
        await world.clock.advance(TIMING.lease_duration)
        assert not task.done()
        cleanup.set()
        await settle()

        assert isinstance(task.exception(), LeaseLost)


async def test_somebody_elses_lease_is_not_released() -> None:
    world = World()

    async with at_work(world, Controller()):
        await world.steal_lease()
        await world.clock.advance(TIMING.retry_period)

    assert await world.holder() == "shardlease-controller"


async def test_nothing_new_is_begun_when_the_lease_ran_out_unnoticed() -> None:
    world, controller = World(), Controller()
    ref = await world.create_secret("one")

    async with at_work(world, controller) as (_, task):
        # As after a pause of the whole process: time has passed, nobody has run.
        world.clock._elapsed += TIMING.lease_duration
        await world.label(ref, {"changed": "yes"})

        assert controller.started == ["one"]
        assert isinstance(task.exception(), LeaseLost)


async def test_a_drain_is_not_acknowledged_when_the_lease_ran_out_unnoticed() -> None:
    world = World()
    ref = await world.create_secret("one")

    async with at_work(world, Controller()):
        world.clock._elapsed += TIMING.lease_duration
        await world.drain(ref)

        assert await world.labels(ref) == {OWNER: ME, DRAIN: "true"}


async def test_a_stopping_shard_lets_its_reconciles_end_before_it_releases_the_lease() -> None:
    world, controller = World(), Controller(is_held=True)
    await world.create_secret("one")

    async with at_work(world, controller) as (shard, task):
        shard.stop()
        await settle()
        assert await world.holder() == ME
        controller.released.set()
        await settle()

        assert controller.cancelled == []
        assert await world.holder() == ""
        assert task.done()


async def test_the_lease_is_renewed_while_a_stopping_shard_still_works() -> None:
    world, controller = World(), Controller(is_held=True)
    await world.create_secret("one")

    async with at_work(world, controller) as (shard, _):
        shard.stop()
        await world.clock.advance(3 * TIMING.lease_duration)

        assert controller.running == {"one"}
        assert await world.holder() == ME


async def test_a_stopping_shard_begins_nothing_new() -> None:
    world, controller = World(), Controller(is_held=True)
    await world.create_secret("one")

    async with at_work(world, controller) as (shard, _):
        shard.stop()
        await world.create_secret("two")

        assert controller.started == ["one"]


async def test_work_that_does_not_end_is_cut_short_before_the_lease_is_released() -> None:
    cleanup = asyncio.Event()
    world, controller = World(), Controller(is_held=True, cleanup=cleanup)
    await world.create_secret("one")

    async with at_work(world, controller, stop_grace=timedelta(0)) as (shard, _):
        shard.stop()
        await settle()
        assert controller.cancelled == ["one"]
        assert await world.holder() == ME
        cleanup.set()
        await settle()

        assert await world.holder() == ""


async def test_cancelling_the_shard_ends_the_work_and_then_releases_the_lease() -> None:
    world, controller = World(), Controller(is_held=True)
    await world.create_secret("one")

    async with at_work(world, controller) as (_, task):
        task.cancel()
        await settle()

        assert controller.cancelled == ["one"]
        assert await world.holder() == ""


async def test_a_shard_that_waits_for_its_lease_can_be_stopped() -> None:
    world = World()
    async with at_work(world, Controller()):
        await world.steal_lease()

    async with at_work(world, Controller()) as (shard, task):
        shard.stop()
        await settle()

        assert task.done()
        assert task.exception() is None
        assert await world.holder() == "shardlease-controller"


async def test_a_shard_may_join_again_after_the_thief_has_had_the_lease() -> None:
    world, controller = World(), Controller(is_held=True)
    await world.create_secret("one")

    async with at_work(world, controller, reacquire=True) as (_, task):
        await world.steal_lease()
        await world.clock.advance(TIMING.lease_duration)
        assert controller.started == ["one"]
        await world.clock.advance(TIMING.lease_duration)

        assert not task.done()
        assert controller.started == ["one", "one"]
        assert not controller.overlapped
        assert await world.holder() == ME


async def test_a_shard_whose_resource_is_not_served_takes_no_lease() -> None:
    world = World()
    shard = Shard(
        ring=RING, resource="widgets.example.com", reconcile=Controller(), settings=SETTINGS
    )

    with pytest.raises(NotFound, match=r"widgets\.example\.com"):
        await shard.serve_on(world.cluster, clock=world.clock, rng=HalfWay())

    with pytest.raises(NotFound):
        await world.holder()


async def test_a_shard_waits_for_an_api_server_that_is_away_when_it_starts() -> None:
    world, controller = World(), Controller()
    await world.create_secret("one")
    world.cluster.find_faults.extend(OUTAGE[:3])

    async with at_work(world, controller):
        assert controller.started == []
        await world.clock.advance(3 * TIMING.retry_period)

        assert controller.started == ["one"]


async def test_a_shard_that_waits_for_the_api_server_can_be_stopped() -> None:
    world = World()
    world.cluster.find_faults.extend(OUTAGE)

    async with at_work(world, Controller()) as (shard, task):
        shard.stop()
        await world.clock.advance(TIMING.retry_period)

        assert task.done()
        assert task.exception() is None
        with pytest.raises(NotFound):
            await world.holder()

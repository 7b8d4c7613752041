"""The Lease and the work under it: no work outlives the Lease, and it ends before it is lost."""

import asyncio
from datetime import timedelta

import pytest

from sharder.core.errors import LeaseLost, NotFound
from sharder.sdk import Shard
from sharder.sdk.testing.fake_clock import FixedRng, settle
from tests.unit.sdk.scene import (
    DRAIN,
    ME,
    OWNER,
    RING,
    SETTINGS,
    TIMING,
    Controller,
    Scene,
    at_work,
)


async def test_a_shard_that_sees_another_holder_ends_when_its_cancelled_work_has_ended() -> None:
    cleanup = asyncio.Event()
    scene, controller = Scene(), Controller(is_held=True, cleanup=cleanup)
    await scene.create_secret("one")

    async with at_work(scene, controller) as (_, task):
        await scene.steal_lease()
        await scene.clock.advance(TIMING.retry_period)
        assert (controller.cancelled, task.done()) == (["one"], False)
        await scene.clock.advance(TIMING.lease_duration)
        cleanup.set()
        await settle()

        assert isinstance(task.exception(), LeaseLost)
    assert await scene.holder() == "shardlease-controller"


async def test_nothing_is_begun_or_acknowledged_when_the_lease_ran_out_unnoticed() -> None:
    scene, controller = Scene(), Controller()
    ref, drained = await scene.create_secret("one"), await scene.create_secret("two")

    async with at_work(scene, controller) as (_, task):
        # As after a pause of the whole process: time has passed, no task has run.
        scene.clock._elapsed += TIMING.lease_duration
        await scene.secrets.patch(drained, {"metadata": {"labels": {DRAIN: "true"}}})
        await scene.label(ref, {"changed": "yes"})

        assert sorted(controller.started) == ["one", "two"]
        assert await scene.labels(drained) == {OWNER: ME, DRAIN: "true"}
        assert isinstance(task.exception(), LeaseLost)


async def test_a_shard_that_waits_can_be_stopped() -> None:
    scene = Scene()
    async with at_work(scene, Controller()):
        await scene.steal_lease()
    for is_away in (False, True):
        if is_away:
            scene.cluster.disconnect()

        async with at_work(scene, Controller()) as (shard, task):
            shard.stop()
            await scene.clock.advance(TIMING.retry_period)

            assert task.done()
            assert task.exception() is None
            assert await scene.holder() == "shardlease-controller"


async def test_a_shard_waits_for_an_api_server_that_is_away_when_it_starts() -> None:
    scene, controller = Scene(), Controller()
    await scene.create_secret("one")
    scene.cluster.disconnect()

    async with at_work(scene, controller):
        await scene.clock.advance(3 * TIMING.retry_period)
        assert controller.started == []
        await scene.cluster.connect()
        await scene.clock.advance(TIMING.retry_period)

        assert controller.started == ["one"]


async def test_work_that_does_not_end_is_cut_short_before_the_lease_is_released() -> None:
    cleanup = asyncio.Event()
    scene, controller = Scene(), Controller(is_held=True, cleanup=cleanup)
    await scene.create_secret("one")

    async with at_work(scene, controller, stop_grace=timedelta(0)) as (shard, _):
        shard.stop()
        await settle()
        assert controller.cancelled == ["one"]
        assert await scene.holder() == ME
        cleanup.set()
        await settle()

        assert await scene.holder() == ""


async def test_a_shard_whose_resource_is_not_served_takes_no_lease() -> None:
    scene = Scene()
    shard = Shard(ring=RING, settings=SETTINGS)
    shard.reconciler("gadgets.example.com", Controller())

    with pytest.raises(NotFound, match=r"gadgets\.example\.com"):
        await shard.serve_on(scene.cluster, clock=scene.clock, rng=FixedRng())

    with pytest.raises(NotFound):
        await scene.holder()

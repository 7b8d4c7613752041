"""A shard that stops on purpose has its objects taken away first, but never waits for ever."""

import asyncio
import logging
from datetime import timedelta

import pytest

from sharder.core.errors import LeaseLost, Unavailable
from sharder.core.names import EVACUATE_ON_STOP, REVISION_LABEL
from sharder.sdk.testing.fake_clock import settle
from tests.unit.sdk.scene import LEASE, ME, OTHER, OWNER, TIMING, Controller, Scene, at_work

WITHIN = 60.0


async def test_without_a_time_to_drain_or_an_object_a_shard_stops_at_once() -> None:
    for within, objects in ((0.0, 1), (WITHIN, 0)):
        scene = Scene()
        for _ in range(objects):
            await scene.create_secret("one")

        async with at_work(scene, Controller(), drain_on_stop=within) as (shard, task):
            shard.stop()
            await settle()

            assert task.done()
            assert await scene.asked_evacuation() == ""


async def test_a_shard_asks_by_its_lease_to_be_evacuated_works_on_and_stops_when_it_has_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    scene, controller = Scene(), Controller()
    released, taken = await scene.create_secret("one"), await scene.create_secret("two")

    async with at_work(scene, controller, drain_on_stop=WITHIN) as (shard, task):
        shard.stop()
        await settle()
        assert (await scene.asked_evacuation(), await scene.holder()) == (EVACUATE_ON_STOP, ME)
        await scene.clock.advance(3 * TIMING.lease_duration)
        await scene.label(released, {"changed": "yes"})
        assert sorted(controller.started) == ["one", "one", "two"]
        await scene.drain(released)
        await scene.clock.advance(5)
        assert (task.done(), await scene.holder()) == (False, ME)
        await scene.label(taken, {OWNER: OTHER})
        await scene.clock.advance(1)

        assert task.done()
        assert (await scene.asked_evacuation(), await scene.holder()) == ("", "")
    told = [m for m in caplog.messages if "evacuat" in m]
    assert (told[0], *told[-2:]) == (
        "evacuating before stop: 2 objects left",
        "evacuating before stop: 1 objects left",
        "evacuated",
    )


async def test_an_object_that_is_at_work_is_waited_for_and_no_list_of_children() -> None:
    scene, controller = Scene(), Controller(is_held=True)
    scene.configmaps.fail(*[Unavailable("busy")] * 9)
    ref = await scene.create_secret("one")

    async with at_work(scene, controller, drain_on_stop=WITHIN) as (shard, task):
        shard.stop()
        await scene.drain(ref)
        assert not task.done()
        controller.released.set()
        await scene.clock.advance(1)

        assert (task.done(), controller.cancelled) == (True, [])


@pytest.mark.parametrize("within", [WITHIN, timedelta(seconds=WITHIN)])
async def test_a_shard_whose_objects_no_other_takes_stops_at_its_deadline(
    within: float | timedelta, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene()
    ref = await scene.create_secret("one")

    async with at_work(scene, Controller(), drain_on_stop=within) as (shard, task):
        shard.stop()
        await scene.clock.advance(WITHIN - 1)
        assert not task.done()
        await scene.clock.advance(1.1)

        assert task.done()
        assert task.exception() is None
        assert await scene.labels(ref) == {OWNER: ME}
        assert "drain_on_stop timed out with 1 objects left" in caplog.messages


async def test_a_shard_that_does_not_know_yet_what_it_has_does_not_take_it_for_nothing() -> None:
    scene = Scene()
    await scene.create_secret("one")
    scene.secrets.fail(Unavailable("busy"))

    async with at_work(scene, Controller(), drain_on_stop=WITHIN) as (shard, task):
        shard.stop()
        await scene.clock.advance(5)

        assert not task.done()
        assert await scene.asked_evacuation() == EVACUATE_ON_STOP


async def test_a_request_gets_past_errors_and_what_others_write_to_the_lease() -> None:
    scene = Scene()
    await scene.create_secret("one")

    async with at_work(scene, Controller(), drain_on_stop=WITHIN) as (shard, _):
        await scene.cluster.lease_store.patch(LEASE, {"metadata": {"labels": {"state": "ready"}}})
        scene.cluster.lease_store.fail(Unavailable("busy"))
        shard.stop()
        await settle()
        assert await scene.asked_evacuation() == ""
        await scene.clock.advance(TIMING.retry_period)

        assert await scene.asked_evacuation() == EVACUATE_ON_STOP


@pytest.mark.parametrize(
    ("asked", "meanwhile", "after"),
    [("true", "true", "true"), ("false", EVACUATE_ON_STOP, "")],
)
async def test_what_a_person_has_asked_stays_and_keeps_no_shard_from_leaving(
    asked: str, meanwhile: str, after: str
) -> None:
    scene = Scene()
    ref = await scene.create_secret("one")

    async with at_work(scene, Controller(), drain_on_stop=WITHIN) as (shard, task):
        await scene.ask_evacuation(asked)
        shard.stop()
        await settle()
        assert await scene.asked_evacuation() == meanwhile
        await scene.drain(ref)
        await scene.clock.advance(1)

        assert task.done()
        assert await scene.asked_evacuation() == after


@pytest.mark.parametrize(("left", "found"), [(EVACUATE_ON_STOP, ""), ("true", "true")])
@pytest.mark.parametrize("revision", ["new", ""])
async def test_a_shard_that_starts_replaces_what_one_that_was_killed_has_said_of_itself(
    left: str, found: str, revision: str
) -> None:
    scene = Scene()
    async with at_work(scene, Controller(), revision="old"):
        pass
    await scene.ask_evacuation(left)

    async with at_work(scene, Controller(), revision=revision):
        lease = await scene.cluster.lease_store.get(LEASE)
        assert lease.spec.holder_identity == ME
        assert await scene.asked_evacuation() == found
        assert lease.metadata.label(REVISION_LABEL) == revision


async def test_a_shard_that_is_evacuated_still_ends_with_its_lease() -> None:
    for is_stolen in (True, False):
        scene = Scene()
        await scene.create_secret("one")

        async with at_work(scene, Controller(), drain_on_stop=WITHIN) as (shard, task):
            if is_stolen:
                shard.stop()
                await settle()
                await scene.steal_lease()
            else:
                scene.cluster.lease_store.fail(*[Unavailable("server away")] * 20)
                shard.stop()
            await scene.clock.advance(TIMING.renew_deadline + 0.1)

            assert isinstance(task.exception(), LeaseLost)


@pytest.mark.parametrize("is_evacuated", [False, True])
async def test_cancelling_ends_work_and_evacuation_and_releases_the_lease(
    is_evacuated: bool,
) -> None:
    scene, controller = Scene(), Controller(is_held=True)
    await scene.create_secret("one")

    async with at_work(scene, controller, drain_on_stop=WITHIN) as (shard, task):
        if is_evacuated:
            shard.stop()
            await settle()
        task.cancel()
        await asyncio.wait({task})

        assert controller.cancelled == ["one"]
        assert (await scene.holder(), await scene.asked_evacuation()) == ("", "")

"""A shard that stops on purpose has its objects taken away first, but never waits for ever."""

import asyncio
import logging
from datetime import timedelta

import pytest

from sharder.core.errors import LeaseLost, Unavailable
from sharder.core.names import EVACUATE_ON_STOP, REVISION_LABEL, ObjectRef
from sharder.runtime.lease_lock import LeaseHolder
from sharder.sdk.lifecycle import drain
from sharder.sdk.testing.fake_clock import settle
from tests.unit.sdk.scene import (
    LEASE,
    ME,
    OTHER,
    OWNER,
    TIMING,
    Controller,
    HalfWay,
    Scene,
    at_work,
)

WITHIN = 60.0


async def test_a_shard_without_a_time_to_drain_stops_at_once() -> None:
    scene = Scene()
    await scene.create_secret("one")

    async with at_work(scene, Controller()) as (shard, task):
        shard.stop()
        await settle()

        assert task.done()
        assert await scene.asked_evacuation() == ""


async def test_a_shard_that_is_to_stop_asks_by_its_lease_to_be_evacuated() -> None:
    scene = Scene()
    await scene.create_secret("one")

    async with at_work(scene, Controller(), drain_on_stop=WITHIN) as (shard, task):
        shard.stop()
        await settle()

        assert await scene.asked_evacuation() == EVACUATE_ON_STOP
        assert await scene.holder() == ME
        assert not task.done()


async def test_a_shard_that_is_evacuated_goes_on_working_and_keeps_its_lease() -> None:
    scene, controller = Scene(), Controller()
    ref = await scene.create_secret("one")

    async with at_work(scene, controller, drain_on_stop=WITHIN) as (shard, _):
        shard.stop()
        await scene.clock.advance(3 * TIMING.lease_duration)
        await scene.label(ref, {"changed": "yes"})

        assert controller.started == ["one", "one"]
        assert await scene.holder() == ME


async def test_a_shard_stops_when_its_last_object_was_released() -> None:
    scene = Scene()
    first, last = await scene.create_secret("one"), await scene.create_secret("two")

    async with at_work(scene, Controller(), drain_on_stop=WITHIN) as (shard, task):
        shard.stop()
        await settle()
        await scene.drain(first)
        assert not task.done()
        await scene.drain(last)
        await scene.clock.advance(1)

        assert await scene.labels(last) == {}
        assert task.done()
        assert await scene.holder() == ""


async def test_a_shard_stops_when_its_last_object_was_taken_or_deleted() -> None:
    scene = Scene()
    ref = await scene.create_secret("one")

    async with at_work(scene, Controller(), drain_on_stop=WITHIN) as (shard, task):
        shard.stop()
        await settle()
        await scene.label(ref, {OWNER: OTHER})
        await scene.clock.advance(1)

        assert task.done()


async def test_an_object_that_is_at_work_is_waited_for() -> None:
    scene, controller = Scene(), Controller(is_held=True)
    ref = await scene.create_secret("one")

    async with at_work(scene, controller, drain_on_stop=WITHIN) as (shard, task):
        shard.stop()
        await scene.drain(ref)
        assert not task.done()
        controller.released.set()
        await scene.clock.advance(1)

        assert task.done()
        assert controller.cancelled == []


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


async def test_the_log_says_how_many_objects_are_left(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    scene = Scene()
    first, last = await scene.create_secret("one"), await scene.create_secret("two")

    async with at_work(scene, Controller(), drain_on_stop=WITHIN) as (shard, _):
        shard.stop()
        await settle()
        await scene.drain(first)
        await scene.clock.advance(5)
        await scene.drain(last)
        await scene.clock.advance(1)

    told = [m for m in caplog.messages if "evacuat" in m]
    assert told == [
        "evacuating before stop: 2 objects left",
        "evacuating before stop: 1 objects left",
        "evacuated",
    ]


async def test_a_shard_that_has_nothing_stops_at_once() -> None:
    scene = Scene()

    async with at_work(scene, Controller(), drain_on_stop=WITHIN) as (shard, task):
        shard.stop()
        await settle()

        assert task.done()


async def test_a_shard_that_does_not_know_yet_what_it_has_does_not_take_it_for_nothing() -> None:
    scene = Scene()
    await scene.create_secret("one")
    scene.secrets.fail(Unavailable("busy"))

    async with at_work(scene, Controller(), drain_on_stop=WITHIN) as (shard, task):
        shard.stop()
        await scene.clock.advance(5)

        assert not task.done()
        assert await scene.asked_evacuation() == EVACUATE_ON_STOP


async def test_a_request_that_is_not_heard_at_first_goes_along_with_the_next_renewal() -> None:
    scene = Scene()
    await scene.create_secret("one")

    async with at_work(scene, Controller(), drain_on_stop=WITHIN) as (shard, _):
        scene.cluster.lease_store.fail(Unavailable("busy"))
        shard.stop()
        await settle()
        assert await scene.asked_evacuation() == ""
        await scene.clock.advance(TIMING.retry_period)

        assert await scene.asked_evacuation() == EVACUATE_ON_STOP


async def test_a_request_gets_past_what_others_write_to_the_lease() -> None:
    scene = Scene()
    await scene.create_secret("one")

    async with at_work(scene, Controller(), drain_on_stop=WITHIN) as (shard, _):
        await scene.cluster.lease_store.patch(LEASE, {"metadata": {"labels": {"state": "ready"}}})
        shard.stop()
        await settle()

        assert await scene.asked_evacuation() == EVACUATE_ON_STOP


async def test_the_request_is_taken_back_with_the_release() -> None:
    scene = Scene()
    ref = await scene.create_secret("one")

    async with at_work(scene, Controller(), drain_on_stop=WITHIN) as (shard, task):
        shard.stop()
        await settle()
        await scene.drain(ref)
        await scene.clock.advance(1)

        assert task.done()
        assert await scene.asked_evacuation() == ""


async def test_what_a_person_has_asked_stays_as_it_is() -> None:
    scene = Scene()
    ref = await scene.create_secret("one")

    async with at_work(scene, Controller(), drain_on_stop=WITHIN) as (shard, task):
        await scene.ask_evacuation("true")
        shard.stop()
        await settle()
        assert await scene.asked_evacuation() == "true"
        await scene.drain(ref)
        await scene.clock.advance(1)

        assert task.done()
        assert await scene.asked_evacuation() == "true"


async def test_a_person_who_had_asked_for_no_evacuation_does_not_keep_it_from_leaving() -> None:
    scene = Scene()
    await scene.create_secret("one")

    async with at_work(scene, Controller(), drain_on_stop=WITHIN) as (shard, _):
        await scene.ask_evacuation("false")
        shard.stop()
        await settle()

        assert await scene.asked_evacuation() == EVACUATE_ON_STOP


@pytest.mark.parametrize(("left", "found"), [(EVACUATE_ON_STOP, ""), ("true", "true")])
async def test_a_shard_that_starts_takes_back_what_one_that_was_killed_has_asked(
    left: str, found: str
) -> None:
    scene = Scene()
    async with at_work(scene, Controller()):
        pass
    await scene.ask_evacuation(left)

    async with at_work(scene, Controller()):
        assert await scene.holder() == ME
        assert await scene.asked_evacuation() == found


async def test_a_shard_that_is_evacuated_still_ends_when_its_lease_is_lost() -> None:
    scene = Scene()
    await scene.create_secret("one")

    async with at_work(scene, Controller(), drain_on_stop=WITHIN) as (shard, task):
        shard.stop()
        await settle()
        await scene.steal_lease()
        await scene.clock.advance(TIMING.retry_period)

        assert isinstance(task.exception(), LeaseLost)


async def test_a_stop_with_the_api_server_away_ends_with_the_renew_deadline() -> None:
    scene = Scene()
    await scene.create_secret("one")

    async with at_work(scene, Controller(), drain_on_stop=WITHIN) as (shard, task):
        scene.cluster.lease_store.fail(*[Unavailable("server away")] * 20)
        shard.stop()
        await scene.clock.advance(TIMING.renew_deadline + 0.1)

        assert isinstance(task.exception(), LeaseLost)


async def test_cancelling_ends_the_evacuation_and_releases_the_lease() -> None:
    scene, controller = Scene(), Controller(is_held=True)
    await scene.create_secret("one")

    async with at_work(scene, controller, drain_on_stop=WITHIN) as (shard, task):
        shard.stop()
        await settle()
        task.cancel()
        await asyncio.wait({task})

        assert controller.cancelled == ["one"]
        assert await scene.holder() == ""
        assert await scene.asked_evacuation() == ""


class EndedWork:
    """Work that has ended by itself, as that of kopf at a second signal."""

    objects = 2
    is_empty = True
    blocked = ""

    def problem(self, seconds: float) -> str:
        return ""

    async def run(self, stop: asyncio.Event, *, stop_grace: timedelta) -> None:
        """Return at once."""


async def test_an_evacuation_whose_work_has_ended_did_not_time_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    leases = scene.cluster.leases(LEASE.namespace)
    holder = LeaseHolder(leases, LEASE, ME, clock=scene.clock, rng=HalfWay())
    await holder.acquire()

    await drain(holder, EndedWork(), within=WITHIN, clock=scene.clock)

    assert caplog.messages == ["evacuation ended early: 2 objects left"]


@pytest.mark.parametrize("revision", ["new", ""])
async def test_a_shard_that_restarts_says_its_own_revision(revision: str) -> None:
    scene = Scene()
    async with at_work(scene, Controller(), revision="old"):
        assert await revision_of(scene, LEASE) == "old"

    async with at_work(scene, Controller(), revision=revision):
        assert await revision_of(scene, LEASE) == revision


async def revision_of(scene: Scene, ref: ObjectRef) -> str:
    return (await scene.cluster.lease_store.get(ref)).metadata.label(REVISION_LABEL)

"""What a shard does with its objects, and when it lets them go."""

import logging
from datetime import timedelta

import pytest

from sharder.core.api.meta import Json
from sharder.core.errors import Expired, Unavailable
from sharder.sdk.reads.owned import NotOwned
from sharder.sdk.testing.fake_clock import settle
from sharder.sdk.testing.memory_client import Collection
from sharder.sdk.testing.rules import merge
from sharder.sdk.testing.writer import Admission, Attributes
from sharder.shard.objects import Document
from tests.unit.sdk.scene import (
    CONFIGMAPS,
    DRAIN,
    ME,
    OTHER,
    OWNER,
    SECRETS,
    TIMING,
    Controller,
    Scene,
    Webhook,
    at_work,
)


async def test_a_failed_reconcile_is_logged_and_tried_again_after_a_back_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    errors: list[Exception] = [ValueError("bad key"), NotOwned("moved away")]
    scene, controller = Scene(), Controller(errors=errors)
    await scene.create_secret("one")
    async with at_work(scene, controller) as (_, task):
        await scene.clock.advance(60)
        await scene.create_secret("sound")
        assert controller.started == ["one", "one", "one", "sound"]
        assert not task.done()
    told = [
        (record.message, record.__dict__["object"], record.__dict__["shard"])
        for record in caplog.records
        if "object" in record.__dict__ and record.__dict__["object"] == "default/one"
    ]
    started, ended = (("reconcile " + it, "default/one", ME) for it in ("started", "ended"))
    assert told[:2] == [started, (told[1][0], "default/one", ME)]
    assert [text for text, *_ in told if "failed" in text] == [
        "reconcile failed: default/one: ValueError('bad key')",
        "reconcile failed: default/one: moved away",
    ]
    assert told[-1] == ended


@pytest.mark.parametrize("is_watched", [True, False])
async def test_a_reconcile_is_cancelled_when_its_object_has_moved_by_force(
    is_watched: bool,
) -> None:
    scene, controller = Scene(), Controller(is_held=True)
    ref = await scene.create_secret("one")
    async with at_work(scene, controller):
        if not is_watched:
            await _list_again(scene.secrets)
        await scene.label(ref, {OWNER: OTHER})
        await scene.clock.advance(2)
        assert controller.cancelled == ["one"]


async def test_a_drain_that_is_withdrawn_lets_the_work_go_on_and_the_next_grace_is_whole() -> None:
    scene, controller = Scene(), Controller(is_held=True)
    ref = await scene.create_secret("one")
    async with at_work(scene, controller, drain_grace=timedelta(seconds=4)):
        await scene.drain(ref)
        await scene.clock.advance(3)
        await scene.label(ref, {DRAIN: None})
        await scene.clock.advance(5)
        await scene.drain(ref)
        await scene.clock.advance(3)
        scene.hold_up_watches()
        await scene.label(ref, {DRAIN: None})
        controller.released.set()
        await settle()
        await scene.let_watches_flow()
        await scene.clock.advance(30)
        assert controller.cancelled == []
        assert controller.started == ["one", "one"]
        assert await scene.labels(ref) == {OWNER: ME}


async def test_objects_wait_for_a_worker_and_no_drain_does() -> None:
    scene, controller = Scene(), Controller(is_held=True)
    await scene.create_secret("busy")
    async with at_work(scene, controller, workers=1):
        ref = await scene.create_secret("waiting")
        assert controller.started == ["busy"]
        await scene.drain(ref)
        assert controller.started == ["busy"]
        assert await scene.labels(ref) == {}


async def test_no_reconcile_begins_when_the_lease_has_ended_while_its_children_are_read() -> None:
    scene, controller = Scene(), Controller()
    async with at_work(scene, controller, cache=["configmaps"]):
        scene.hold_up_watches(CONFIGMAPS)
        child: Json = {"metadata": {"name": "child", "labels": {OWNER: ME}}}
        await scene.configmaps.create("default", child)
        await scene.create_secret("one")
        scene.clock._elapsed += TIMING.lease_duration  # as when the process is paused
        await scene.let_watches_flow()
        assert controller.started == []


async def test_an_acknowledgement_whose_answer_was_lost_is_not_sent_again() -> None:
    scene, controller = Scene(), Controller(is_held=True)
    ref = await scene.create_secret("one")
    async with at_work(scene, controller):
        await scene.drain(ref)
        scene.secrets.lose(Unavailable("no answer"))
        controller.released.set()
        await settle()
        await scene.label(ref, {OWNER: OTHER})
        await scene.clock.advance(30)
        assert await scene.labels(ref) == {OWNER: OTHER}


class Webhooks:
    """Put the labels of every acknowledgement back, and may touch the object as well."""

    def __init__(self, scene: Scene, *, touch: bool) -> None:
        self._scene = scene
        self._touch = touch
        self.writes = 0
        scene.cluster.server.writer.admission = Webhook(self._revert)

    async def _revert(self, attributes: Attributes) -> Document:
        if attributes.resource.id != SECRETS.id:
            return attributes.obj or {}
        self.writes += 1
        touched: Json = {"metadata": {"annotations": {"touched": str(self.writes)}}}
        return merge(attributes.old, touched if self._touch else {})  # type: ignore[return-value]

    def end(self) -> None:
        self._scene.cluster.server.writer.admission = Admission()


@pytest.mark.parametrize("touch", [False, True], ids=["unchanged", "touched by another webhook"])
async def test_an_acknowledgement_that_a_webhook_reverted_is_sent_again_with_back_off(
    touch: bool, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene()
    ref = await scene.create_secret("one")

    async with at_work(scene, Controller()):
        webhooks = Webhooks(scene, touch=touch)
        await scene.drain(ref)
        assert webhooks.writes == 1
        await scene.clock.advance(600)
        assert 10 <= webhooks.writes <= 40
        (told,) = caplog.messages
        assert told.startswith("drain of default/one not acknowledged: its labels were restored")
        webhooks.end()
        await scene.clock.advance(60)
        assert (await scene.labels(ref)).keys() == set()


async def test_a_shard_does_not_end_its_leave_while_a_reverted_object_is_still_its_own() -> None:
    scene = Scene()
    ref = await scene.create_secret("one")

    async with at_work(scene, Controller(), drain_on_stop=3600) as (shard, task):
        webhooks = Webhooks(scene, touch=False)
        await scene.drain(ref)
        shard.stop()
        await scene.clock.advance(120)
        assert not task.done()
        webhooks.end()
        await scene.clock.advance(60)
        assert task.done()


async def test_work_goes_on_when_a_reverted_drain_is_withdrawn() -> None:
    scene, controller = Scene(), Controller()
    ref = await scene.create_secret("one")
    async with at_work(scene, controller):
        webhooks = Webhooks(scene, touch=False)
        await scene.drain(ref)
        await scene.clock.advance(600)
        await scene.label(ref, {DRAIN: None})
        assert controller.started == ["one", "one"]
        before = webhooks.writes
        await scene.drain(ref)
        assert webhooks.writes == before + 1  # its back-off began anew


@pytest.mark.parametrize(
    "reference",
    [
        {"kind": "Secret", "name": "unknown"},
        {"kind": "Pod", "name": "one"},
        {"kind": "Secret", "name": "one", "apiVersion": "example.com/v1"},
        {"kind": "Secret", "name": "one", "controller": False},
    ],
)
async def test_a_child_of_something_else_leads_to_nothing(reference: dict[str, Json]) -> None:
    scene, controller = Scene(), Controller()
    await scene.create_secret("one")
    async with at_work(scene, controller):
        owner = {"apiVersion": "v1", "controller": True, **reference}
        metadata: Json = {"name": "child", "labels": {OWNER: ME}, "ownerReferences": [owner]}
        await scene.configmaps.create("default", {"metadata": metadata})
        await settle()
        assert controller.started == ["one"]


async def _list_again(store: Collection[Document]) -> None:
    """Break the watch such that it lists again in about a second."""
    store.fail(Expired("the watch window has passed"))
    store.hang_up()
    await settle()

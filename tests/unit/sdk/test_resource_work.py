"""What a shard does with its objects, and when it lets them go."""

import asyncio
import logging
from datetime import timedelta

import pytest

from sharder.core.api.meta import Json
from sharder.core.errors import Expired, Unavailable
from sharder.sdk import NotOwned, Request
from sharder.sdk.reads.objects import Document
from sharder.sdk.testing.collection import Collection
from sharder.sdk.testing.fake_clock import settle
from tests.unit.sdk.scene import DRAIN, ME, OTHER, OWNER, Controller, Scene, at_work


async def test_the_objects_that_are_there_are_worked_on() -> None:
    scene, controller = Scene(), Controller()
    await scene.create_secret("one")
    await scene.create_secret("two")

    async with at_work(scene, controller):
        assert sorted(controller.started) == ["one", "two"]


async def test_an_object_that_comes_later_is_worked_on() -> None:
    scene, controller = Scene(), Controller()

    async with at_work(scene, controller):
        await scene.create_secret("late")

        assert controller.started == ["late"]


async def test_another_shards_object_is_left_alone() -> None:
    scene, controller = Scene(), Controller()
    await scene.create_secret("theirs", owner=OTHER)

    async with at_work(scene, controller):
        assert controller.started == []


async def test_an_object_is_never_worked_on_twice_at_once() -> None:
    scene, controller = Scene(), Controller(is_held=True)
    ref = await scene.create_secret("one")

    async with at_work(scene, controller):
        await scene.label(ref, {"changed": "yes"})
        await scene.label(ref, {"changed": "again"})

        assert controller.started == ["one"]
        controller.released.set()
        await settle()
        assert controller.started == ["one", "one"]
        assert not controller.overlapped


async def test_a_new_list_does_not_start_a_second_reconcile() -> None:
    scene, controller = Scene(), Controller(is_held=True)
    ref = await scene.create_secret("one")

    async with at_work(scene, controller):
        await _list_again(scene.secrets)
        await scene.label(ref, {"changed": "yes"})
        await scene.clock.advance(2)

        assert controller.running == {"one"}
        assert controller.started == ["one"]


async def test_no_more_objects_are_worked_on_at_once_than_there_are_workers() -> None:
    scene, controller = Scene(), Controller(is_held=True)
    for number in range(5):
        await scene.create_secret(f"object-{number}")

    async with at_work(scene, controller, workers=2):
        assert len(controller.running) == 2


async def test_a_failed_reconcile_is_tried_again_after_a_back_off() -> None:
    scene, controller = Scene(), Controller(errors=[ValueError("no"), NotOwned("no")])
    await scene.create_secret("one")

    async with at_work(scene, controller):
        await scene.clock.advance(60)

        assert controller.started == ["one"] * 3


@pytest.mark.parametrize(
    ("error", "text"),
    [(ValueError("bad key"), "ValueError('bad key')"), (NotOwned("moved away"), "moved away")],
)
async def test_the_message_says_why_a_reconcile_failed(
    error: Exception, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    scene, controller = Scene(), Controller(errors=[error])
    await scene.create_secret("one")

    async with at_work(scene, controller):
        assert caplog.messages == [f"reconcile failed: default/one: {text}"]


async def test_the_back_off_begins_anew_after_a_success() -> None:
    scene, controller = Scene(), Controller(errors=[ValueError("no") for _ in range(8)])
    ref = await scene.create_secret("one")

    async with at_work(scene, controller):
        await scene.clock.advance(60)
        assert len(controller.started) == 9
        controller.errors.append(ValueError("no"))
        await scene.label(ref, {"changed": "yes"})
        await scene.clock.advance(0.1)

        assert len(controller.started) == 11


async def test_a_request_ends_with_its_reconcile() -> None:
    scene, controller = Scene(), Controller()
    await scene.create_secret("one")

    async with at_work(scene, controller):
        with pytest.raises(NotOwned, match="has ended"):
            controller.requests[0].check()


async def test_what_a_new_list_shows_unchanged_is_not_worked_on_again() -> None:
    scene, controller = Scene(), Controller()
    await scene.create_secret("one")
    changed = await scene.create_secret("two")

    async with at_work(scene, controller):
        await _list_again(scene.secrets)
        await scene.label(changed, {"changed": "yes"})
        await scene.clock.advance(2)

        assert sorted(controller.started) == ["one", "two", "two"]


async def test_a_failing_object_does_not_end_the_others() -> None:
    scene, controller = Scene(), Controller(errors=[ValueError("no")])
    await scene.create_secret("broken")

    async with at_work(scene, controller) as (_, task):
        await scene.create_secret("sound")

        assert "sound" in controller.ended
        assert not task.done()


@pytest.mark.parametrize("after", [30.0, timedelta(seconds=30)])
async def test_the_function_says_when_to_look_again(after: float | timedelta) -> None:
    scene, controller = Scene(), Controller(result=after)
    await scene.create_secret("one")

    async with at_work(scene, controller):
        await scene.clock.advance(29)
        assert controller.started == ["one"]
        await scene.clock.advance(2)
        assert controller.started == ["one", "one"]


async def test_an_idle_object_is_released_at_once_by_removing_both_labels() -> None:
    scene = Scene()
    ref = await scene.create_secret("one")

    async with at_work(scene, Controller()):
        await scene.drain(ref)

        assert await scene.labels(ref) == {}


async def test_a_draining_object_is_released_only_when_its_reconcile_has_ended() -> None:
    scene, controller = Scene(), Controller(is_held=True)
    ref = await scene.create_secret("one")

    async with at_work(scene, controller):
        await scene.drain(ref)
        assert await scene.labels(ref) == {OWNER: ME, DRAIN: "true"}
        controller.released.set()
        await settle()

        assert controller.cancelled == []
        assert await scene.labels(ref) == {}


async def test_a_reconcile_is_cancelled_when_its_object_should_have_gone() -> None:
    scene, controller = Scene(), Controller(is_held=True)
    ref = await scene.create_secret("one")

    async with at_work(scene, controller, drain_grace=timedelta(seconds=2)):
        await scene.drain(ref)
        await scene.clock.advance(1.5)
        assert controller.cancelled == []
        await scene.clock.advance(0.6)

        assert controller.cancelled == ["one"]
        assert await scene.labels(ref) == {}


async def test_an_object_is_kept_while_a_cancelled_reconcile_cleans_up() -> None:
    cleanup = asyncio.Event()
    scene, controller = Scene(), Controller(is_held=True, cleanup=cleanup)
    ref = await scene.create_secret("one")

    async with at_work(scene, controller, drain_grace=timedelta(0)):
        await scene.drain(ref)
        await scene.label(ref, {"changed": "yes"})
        assert controller.cancelled == ["one"]
        assert (await scene.labels(ref))[OWNER] == ME
        cleanup.set()
        await settle()

        assert await scene.labels(ref) == {"changed": "yes"}


async def test_a_draining_object_is_not_worked_on_any_more() -> None:
    scene, controller = Scene(), Controller()
    ref = await scene.create_secret("one")
    await scene.drain(ref)

    async with at_work(scene, controller):
        assert controller.started == []


async def test_a_drain_does_not_wait_behind_the_reconciles_of_other_objects() -> None:
    scene, controller = Scene(), Controller(is_held=True)
    await scene.create_secret("busy")

    async with at_work(scene, controller, workers=1):
        ref = await scene.create_secret("waiting")
        await scene.drain(ref)

        assert controller.started == ["busy"]
        assert await scene.labels(ref) == {}


async def test_a_withdrawn_drain_lets_the_work_go_on() -> None:
    scene, controller = Scene(), Controller(is_held=True)
    ref = await scene.create_secret("one")

    async with at_work(scene, controller, drain_grace=timedelta(seconds=2)):
        await scene.drain(ref)
        await scene.label(ref, {DRAIN: None})
        await scene.clock.advance(5)
        controller.released.set()
        await settle()

        assert controller.cancelled == []
        assert controller.started == ["one", "one"]
        assert await scene.labels(ref) == {OWNER: ME}


async def test_the_grace_of_a_second_drain_begins_anew() -> None:
    scene, controller = Scene(), Controller(is_held=True)
    ref = await scene.create_secret("one")

    async with at_work(scene, controller, drain_grace=timedelta(seconds=4)):
        await scene.drain(ref)
        await scene.clock.advance(3)
        await scene.label(ref, {DRAIN: None})
        await scene.drain(ref)
        await scene.clock.advance(3)
        assert controller.cancelled == []
        await scene.clock.advance(1.5)

        assert controller.cancelled == ["one"]


async def test_an_acknowledgement_that_lost_a_race_is_judged_anew() -> None:
    scene, controller = Scene(), Controller(is_held=True)
    ref = await scene.create_secret("one")

    async with at_work(scene, controller):
        await scene.drain(ref)
        scene.hold_up_watches()
        await scene.label(ref, {"changed": "yes"})
        controller.released.set()
        await settle()
        assert await scene.labels(ref) == {OWNER: ME, DRAIN: "true", "changed": "yes"}
        await scene.let_watches_flow()

        assert await scene.labels(ref) == {"changed": "yes"}


async def test_an_acknowledgement_that_lost_to_a_withdrawal_is_dropped() -> None:
    scene, controller = Scene(), Controller(is_held=True)
    ref = await scene.create_secret("one")

    async with at_work(scene, controller):
        await scene.drain(ref)
        scene.hold_up_watches()
        await scene.label(ref, {DRAIN: None})
        controller.released.set()
        await settle()
        await scene.let_watches_flow()
        await scene.clock.advance(30)

        assert await scene.labels(ref) == {OWNER: ME}
        assert controller.started == ["one", "one"]


async def test_an_object_that_comes_back_before_the_answer_is_ours() -> None:
    scene, controller = Scene(), Controller(is_held=True)
    ref = await scene.create_secret("one")
    await scene.drain(ref)
    scene.cluster.answers_flow.clear()

    async with at_work(scene, controller):
        await scene.label(ref, {OWNER: ME})
        scene.cluster.answers_flow.set()
        await settle()

        assert controller.started == ["one"]
        controller.requests[0].check()


async def test_an_object_that_came_back_after_a_lost_answer_is_worked_on() -> None:
    scene, controller = Scene(), Controller()
    ref = await scene.create_secret("one")
    await scene.drain(ref)
    scene.secrets.lose(Unavailable("no answer"))

    async with at_work(scene, controller):
        await scene.label(ref, {OWNER: ME})
        await scene.clock.advance(30)

        assert controller.started == ["one"]
        assert await scene.labels(ref) == {OWNER: ME}


async def test_a_failed_acknowledgement_is_tried_again() -> None:
    scene, controller = Scene(), Controller(is_held=True)
    ref = await scene.create_secret("one")

    async with at_work(scene, controller):
        await scene.drain(ref)
        controller.released.set()
        scene.secrets.fail(Unavailable("busy"), Unavailable("busy"))
        await scene.clock.advance(5)

        assert await scene.labels(ref) == {}


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

    def __init__(self, *, touch: bool) -> None:
        self._touch = touch
        self.writes = 0

    def __call__(self, body: Json) -> Json:
        self.writes += 1
        return {"metadata": {"annotations": {"touched": str(self.writes)}} if self._touch else {}}


@pytest.mark.parametrize("touch", [False, True], ids=["unchanged", "touched by another webhook"])
async def test_an_acknowledgement_that_a_webhook_reverted_is_sent_again_with_back_off(
    touch: bool,
) -> None:
    scene, webhooks = Scene(), Webhooks(touch=touch)
    ref = await scene.create_secret("one")

    async with at_work(scene, Controller()):
        scene.cluster.admit = webhooks
        await scene.drain(ref)
        assert webhooks.writes == 1
        await scene.clock.advance(600)
        assert 10 <= webhooks.writes <= 30
        scene.cluster.admit = lambda body: body
        await scene.clock.advance(60)

        assert (await scene.labels(ref)).keys() == set()


async def test_a_reverted_acknowledgement_is_reported_once_and_not_as_a_success(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    scene = Scene()
    ref = await scene.create_secret("one")

    async with at_work(scene, Controller()):
        scene.cluster.admit = Webhooks(touch=True)
        await scene.drain(ref)
        await scene.clock.advance(600)

    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert warnings[0].startswith(
        "drain of default/one not acknowledged: its labels were restored"
    )
    assert "drain acknowledged" not in caplog.messages


async def test_a_shard_does_not_end_its_leave_while_a_reverted_object_is_still_its_own() -> None:
    scene = Scene()
    ref = await scene.create_secret("one")

    async with at_work(scene, Controller(), drain_on_stop=3600) as (shard, task):
        scene.cluster.admit = Webhooks(touch=False)
        await scene.drain(ref)
        shard.stop()
        await scene.clock.advance(120)
        assert not task.done()
        scene.cluster.admit = lambda body: body
        await scene.clock.advance(60)

        assert task.done()


async def test_work_goes_on_when_a_reverted_drain_is_withdrawn() -> None:
    scene, controller, webhooks = Scene(), Controller(), Webhooks(touch=False)
    ref = await scene.create_secret("one")

    async with at_work(scene, controller):
        scene.cluster.admit = webhooks
        await scene.drain(ref)
        await scene.clock.advance(600)
        await scene.label(ref, {DRAIN: None})
        assert controller.started == ["one", "one"]
        before = webhooks.writes
        await scene.drain(ref)

        assert webhooks.writes == before + 1  # its back-off began anew


async def test_an_object_that_comes_straight_back_is_worked_on() -> None:
    scene, controller = Scene(), Controller()
    ref = await scene.create_secret("one")

    async with at_work(scene, controller):
        await scene.drain(ref)
        await scene.label(ref, {OWNER: ME})

        assert controller.started == ["one", "one"]


async def test_a_reconcile_is_cancelled_when_its_object_has_moved_by_force() -> None:
    scene, controller = Scene(), Controller(is_held=True)
    ref = await scene.create_secret("one")

    async with at_work(scene, controller):
        await scene.label(ref, {OWNER: OTHER})

        assert controller.cancelled == ["one"]


async def test_an_object_missing_from_a_new_list_has_left_too() -> None:
    scene, controller = Scene(), Controller(is_held=True)
    ref = await scene.create_secret("one")

    async with at_work(scene, controller):
        await _list_again(scene.secrets)
        await scene.label(ref, {OWNER: OTHER})
        await scene.clock.advance(2)

        assert controller.cancelled == ["one"]


async def test_children_that_may_have_gone_unseen_lead_to_their_parents() -> None:
    scene, controller = Scene(), Controller()
    await scene.create_secret("one")

    async with at_work(scene, controller):
        await _list_again(scene.configmaps)
        await scene.clock.advance(2)

        assert controller.started == ["one", "one"]


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


async def test_a_change_of_a_child_leads_to_its_parent() -> None:
    scene, controller = Scene(), Controller()
    ref = await scene.create_secret("one")

    async def reconcile(request: Request) -> None:
        await controller(request)
        await request.ensure({"kind": "ConfigMap", "metadata": {"name": "child"}, "data": {}})

    async with at_work(scene, reconcile):
        before = len(controller.started)
        await scene.configmaps.patch(
            ref._replace(name="child"), {"metadata": {"annotations": {"by": "hand"}}}
        )
        await settle()

        assert len(controller.started) == before + 1


async def test_the_record_shows_each_reconcile_with_object_and_shard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    scene = Scene()
    ref = await scene.create_secret("one")

    async with at_work(scene, Controller()):
        await scene.drain(ref)

    facts = [
        (record.message, record.__dict__["object"], record.__dict__["shard"])
        for record in caplog.records
        if "object" in record.__dict__ and record.name.startswith("sharder.sdk")
    ]
    assert facts == [
        ("reconcile started", "default/one", ME),
        ("reconcile ended", "default/one", ME),
        ("drain acknowledged", "default/one", ME),
    ]


async def _list_again(store: Collection[Document]) -> None:
    """Break the watch such that it lists again in about a second."""
    store.fail(Expired("the watch window has passed"))
    store.hang_up()
    await settle()

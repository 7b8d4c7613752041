"""What an author's function can read and write, and when it is refused."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
import pytest

from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import (
    Conflict,
    Forbidden,
    InvalidObject,
    LeaseLost,
    NotFound,
    SharderError,
    Unavailable,
)
from sharder.core.names import GroupResource, ObjectRef
from sharder.sdk import Request
from sharder.sdk.children import NameTaken
from sharder.sdk.reads.owned import NotOwned
from sharder.sdk.testing.requests import Client
from sharder.sdk.testing.storage import metadata_of
from sharder.shard.objects import Document
from tests.unit.sdk.scene import (
    CONFIGMAPS,
    DRAIN,
    ME,
    OTHER,
    OWNER,
    TIMING,
    Controller,
    Scene,
    at_work,
)

CHILD: Mapping[str, Json] = {
    "kind": "ConfigMap",
    "metadata": {"name": "child", "labels": {"app": "demo"}},
    "data": {"a": "1"},
}
ONE, CHILD_REF = ObjectRef("default", "one"), ObjectRef("default", "child")
NAME, THEIRS = "example.com/cleanup", "example.org/theirs"


@dataclass
class Work:
    """A reconcile of the Secret `one` that lasts until the end of the test."""

    scene: Scene
    request: Request

    async def secret(self) -> Document:
        return await self.scene.secrets.get(ONE)

    async def child(self) -> Document:
        return await self.scene.configmaps.get(CHILD_REF)

    def lose_lease(self) -> None:
        """Let the Lease run out, as after a pause of the process."""
        self.scene.clock._elapsed += TIMING.lease_duration

    def lose_lease_while_reading_children(self) -> None:
        def read(_: Client, verb: str, resource: GroupResource, __: str) -> bool:
            if resource == CONFIGMAPS.id and verb == "get":
                self.lose_lease()
            return True

        self.scene.cluster.server.allows = read


@asynccontextmanager
async def working() -> AsyncGenerator[Work]:
    scene, controller = Scene(), Controller(is_held=True)
    await scene.create_secret("one")
    async with at_work(scene, controller):
        yield Work(scene, controller.requests[0])


@pytest.mark.parametrize("labels", [{OWNER: OTHER}, {DRAIN: "true"}, {OWNER: None}])
async def test_an_object_that_is_not_ours_any_more_is_not_handed_out(
    labels: Mapping[str, str | None],
) -> None:
    async with working() as work:
        work.scene.hold_up_watches()
        await work.scene.label(ONE, labels)

        with pytest.raises(NotOwned):
            await work.request.get()
        with pytest.raises(NotOwned):
            await work.request.ensure(CHILD)


async def test_a_patch_is_guarded_by_what_the_request_saw_last() -> None:
    async with working() as work:
        await work.scene.label(ONE, {"changed": "yes"})
        with pytest.raises(Conflict):
            await work.request.patch({"data": {"k": "djI="}})
        assert (await work.secret())["data"] == {"k": "djE="}

        await work.request.get()
        await work.request.patch({"data": {"k": "djI="}})
        assert (await work.secret())["data"] == {"k": "djI="}


async def _lose(work: Work) -> None:
    work.lose_lease()


async def _drain(work: Work) -> None:
    await work.scene.drain(ONE)


async def _move(work: Work) -> None:
    await work.scene.label(ONE, {OWNER: OTHER})


async def _replace(work: Work) -> None:
    await work.scene.cluster.delete("secrets", "one")
    await work.scene.create_secret("one")


async def _end(work: Work) -> None:
    work.request.permit.close()


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (_lose, LeaseLost),
        (_drain, NotOwned),
        (_move, NotOwned),
        (_replace, NotOwned),
        (_end, NotOwned),
    ],
)
async def test_no_write_is_sent_for_an_object_that_is_not_surely_ours(
    spoil: Callable[[Work], Awaitable[None]], error: type[SharderError]
) -> None:
    async with working() as work:
        request = work.request
        await request.ensure(CHILD)
        await spoil(work)
        before, child = await work.secret(), await work.child()

        writes: list[Awaitable[object]] = [
            request.patch({}),
            request.patch_status({}),
            request.ensure({**CHILD, "data": {}}),
            request.delete(),
            request.delete(CHILD),
            request.add_finalizer(NAME),
            request.event("Synced", "done"),
        ]
        for write in writes:
            with pytest.raises(error):
                await write

        assert (await work.secret(), await work.child()) == (before, child)
        assert not (await work.scene.cluster.events.list()).items


# Children


@pytest.mark.parametrize("exists", [True, False])
async def test_a_child_is_not_written_when_the_lease_is_lost_while_it_is_read(
    exists: bool,
) -> None:
    async with working() as work:
        if exists:
            await work.request.ensure(CHILD)
        work.lose_lease_while_reading_children()

        with pytest.raises(LeaseLost):
            await work.request.ensure({**CHILD, "data": {"a": "2"}})
        with pytest.raises(LeaseLost):
            await work.request.delete(CHILD)
        assert bool((await work.scene.configmaps.list()).items) is exists


async def test_a_child_is_created_with_the_shards_label_and_a_controller() -> None:
    async with working() as work:
        await work.request.ensure(CHILD)

        child = msgspec.convert(await work.child(), PartialObject).metadata
        assert child.labels == {"app": "demo", OWNER: ME}
        assert metadata_of(await work.child())["ownerReferences"] == [
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "name": "one",
                "uid": work.request.metadata.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]


@pytest.mark.parametrize(
    ("before", "wanted", "replace", "after"),
    [
        ({"a": "1"}, {"a": "2"}, [], {"a": "2"}),
        ({"a": "1"}, {"b": "2"}, [], {"a": "1", "b": "2"}),
        ({"a": "1"}, {"b": "2"}, ["data"], {"b": "2"}),
        ({"a": "1", "b": "2"}, {"a": None}, [], {"b": "2"}),
    ],
)
async def test_a_child_becomes_what_its_author_says_and_keeps_the_rest(
    before: Json, wanted: Json, replace: list[str], after: Json
) -> None:
    async with working() as work:
        await work.request.ensure({**CHILD, "data": before})
        labels: Json = {"name": "child", "labels": {"app": "demo", "tier": "web"}}

        child = await work.request.ensure(
            {"kind": "ConfigMap", "metadata": labels, "data": wanted}, replace=replace
        )

        assert child["data"] == after
        assert metadata_of(child)["labels"] == {"app": "demo", "tier": "web", OWNER: ME}


async def test_a_child_that_does_not_differ_is_not_written() -> None:
    async with working() as work:
        first = await work.request.ensure(CHILD)

        assert await work.request.ensure(CHILD, replace=["data"]) == first


async def test_another_shards_child_is_left_alone() -> None:
    async with working() as work:
        await work.request.ensure(CHILD)
        await work.scene.configmaps.patch(CHILD_REF, {"metadata": {"labels": {OWNER: OTHER}}})
        before = await work.child()

        with pytest.raises(NotOwned, match=OTHER):
            await work.request.ensure({**CHILD, "data": {"a": "2"}})
        with pytest.raises(NotOwned):
            await work.request.delete(CHILD)
        assert await work.child() == before


async def test_an_object_that_a_user_made_by_hand_is_left_alone() -> None:
    async with working() as work:
        body: Json = {"metadata": {"name": "child", "labels": {OWNER: ME}}}
        before = await work.scene.configmaps.create("default", body)

        with pytest.raises(NameTaken, match="has no controller: adopt it by ensure"):
            await work.request.ensure(CHILD)
        assert (await work.child())["metadata"] == before["metadata"]


async def test_a_child_is_not_created_twice_when_the_answer_was_lost() -> None:
    async with working() as work:
        work.scene.configmaps.lose(Unavailable("no answer"))
        with pytest.raises(Unavailable):
            await work.request.ensure(CHILD)
        before = await work.child()

        assert await work.request.ensure(CHILD) == before


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({}, "needs metadata.name"),
        ({"name": "child", "namespace": "elsewhere"}, "must be in one namespace"),
    ],
)
async def test_a_child_that_cannot_be_controlled_is_invalid(
    metadata: Mapping[str, Json], message: str
) -> None:
    async with working() as work:
        with pytest.raises(InvalidObject, match=message):
            await work.request.ensure({"kind": "ConfigMap", "metadata": metadata})


# Deletions and finalizers


async def test_a_child_that_waits_for_its_finalizers_is_not_deleted_again() -> None:
    async with working() as work:
        metadata: Json = {"name": "child", "finalizers": [THEIRS]}
        await work.request.ensure({**CHILD, "metadata": metadata})
        assert await work.request.delete(CHILD) is False
        before = await work.child()

        assert await work.request.delete(CHILD) is False
        assert await work.child() == before
        assert metadata_of(before)["deletionTimestamp"]


@pytest.mark.parametrize(
    "metadata",
    [
        {"ownerReferences": None},
        {"ownerReferences": [{"kind": "Secret", "name": "one", "uid": "old", "controller": True}]},
    ],
    ids=["by hand", "former parent"],
)
async def test_an_object_of_the_childs_name_is_no_child_to_delete(
    metadata: Mapping[str, Json],
) -> None:
    async with working() as work:
        await work.request.ensure(CHILD)
        await work.scene.configmaps.patch(CHILD_REF, {"metadata": metadata})

        assert await work.request.delete(CHILD) is True
        assert await work.child()


async def test_the_object_is_deleted_in_the_state_that_was_seen() -> None:
    async with working() as work:
        await work.scene.label(ONE, {"changed": "yes"})

        with pytest.raises(Conflict):
            await work.request.delete()
        await work.request.get()
        assert await work.request.delete() is False
        with pytest.raises(NotFound):
            await work.secret()


async def test_a_finalizer_is_added_to_those_of_others_and_none_is_lost() -> None:
    async with working() as work:
        await work.scene.secrets.patch(ONE, {"metadata": {"finalizers": [THEIRS]}})

        with pytest.raises(Conflict):
            await work.request.add_finalizer(NAME)
        await work.request.get()
        await work.request.add_finalizer(NAME)

        assert metadata_of(await work.secret())["finalizers"] == [THEIRS, NAME]
        assert work.request.metadata.has_finalizer(NAME)


# Conditions


async def test_a_condition_keeps_others_and_the_time_of_its_last_transition() -> None:
    other: Json = {"type": "Other", "status": "False", "of": "another controller"}
    async with working() as work:
        odd: Json = {"status": {"replicas": 3, "conditions": [other, "odd", {"type": "Ready"}]}}
        await work.scene.secrets.status().patch(ONE, odd)
        await work.request.get()
        conditions = list[Json]()
        for status, reason in ((True, "Synced"), (True, "Restored"), (None, "Unclear")):
            document = await work.request.set_condition("Ready", status=status, reason=reason)
            conditions.append(document["status"])
            work.scene.clock._elapsed += 1

    times = ["2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z", "2026-03-01T12:00:02Z"]
    states = [("True", "Synced"), ("True", "Restored"), ("Unknown", "Unclear")]
    assert conditions == [
        {
            "replicas": 3,
            "conditions": [
                other,
                {
                    "type": "Ready",
                    "status": status,
                    "reason": reason,
                    "message": "",
                    "lastTransitionTime": time,
                },
            ],
        }
        for (status, reason), time in zip(states, times, strict=True)
    ]


async def test_a_condition_is_not_written_over_a_state_that_was_not_read() -> None:
    async with working() as work:
        await work.request.get()
        await work.scene.secrets.status().patch(ONE, {"status": {"conditions": []}})

        with pytest.raises(Conflict):
            await work.request.set_condition("Ready", status=False, reason="Broken")


# Events


async def test_an_event_is_on_the_object_and_not_repeated_for_ten_minutes() -> None:
    async with working() as work:
        for _ in range(2):
            await work.request.event("Failed", "no quota")
        (event,) = (await work.scene.cluster.events.list()).items
        await work.scene.clock.advance(600)
        await work.request.event("Failed", "no quota")

        assert len((await work.scene.cluster.events.list()).items) == 2
        about = event["involvedObject"]
        assert isinstance(about, Mapping)
        assert (about["kind"], about["name"]) == ("Secret", "one")
        assert (event["type"], event["reportingInstance"]) == ("Normal", ME)


async def test_an_event_that_is_not_taken_is_logged_once_and_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with working() as work:
        work.scene.cluster.events.fail(*[Forbidden("no right")] * 3)
        for _ in range(3):
            await work.request.event("Synced", "done")

    assert caplog.messages == ["event not recorded: default/one: no right"]

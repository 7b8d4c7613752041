"""What an author's function can read and write, and when it is refused."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import pytest

from sharder.core.api.meta import Json
from sharder.core.errors import (
    Conflict,
    Forbidden,
    InvalidObject,
    LeaseLost,
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
FORMER: Json = {"kind": "Secret", "name": "one", "uid": "old", "controller": True}


@dataclass
class Work:
    """A reconcile of the Secret `one` that lasts until the end of the test."""

    scene: Scene
    request: Request

    async def secret(self) -> Document:
        return await self.scene.secrets.get(ONE)

    async def child(self) -> Document:
        return await self.scene.configmaps.get(CHILD_REF)

    async def lose_lease(self) -> None:
        """Let the Lease run out, as after a pause of the process."""
        self.scene.clock._elapsed += TIMING.lease_duration

    async def drain(self) -> None:
        await self.scene.drain(ONE)

    async def move(self) -> None:
        await self.scene.label(ONE, {OWNER: OTHER})

    async def replace(self) -> None:
        await self.scene.cluster.delete("secrets", "one")
        await self.scene.create_secret("one")


@pytest.fixture
async def work() -> AsyncGenerator[Work]:
    scene, controller = Scene(), Controller(is_held=True)
    await scene.create_secret("one")
    async with at_work(scene, controller):
        yield Work(scene, controller.requests[0])


@pytest.mark.parametrize("labels", [{OWNER: OTHER}, {DRAIN: "true"}, {OWNER: None}])
async def test_an_object_that_is_not_ours_any_more_is_not_handed_out(
    work: Work, labels: Mapping[str, str | None]
) -> None:
    work.scene.hold_up_watches()
    await work.scene.label(ONE, labels)

    with pytest.raises(NotOwned):
        await work.request.get()
    with pytest.raises(NotOwned):
        await work.request.ensure(CHILD)


@pytest.mark.parametrize(
    "write",
    [
        lambda request: request.patch({"data": {"k": "djI="}}),
        lambda request: request.set_condition("Ready", status=False, reason="Broken"),
        lambda request: request.add_finalizer(NAME),
        lambda request: request.delete(),
    ],
    ids=["patch", "condition", "finalizer", "delete"],
)
async def test_a_write_is_guarded_by_what_the_request_saw_last(
    work: Work, write: Callable[[Request], Awaitable[object]]
) -> None:
    await work.request.get()
    await work.scene.secrets.patch(ONE, {"metadata": {"finalizers": [THEIRS]}})
    before = await work.secret()
    with pytest.raises(Conflict):
        await write(work.request)
    assert await work.secret() == before

    await work.request.get()
    await write(work.request)
    assert await work.secret() != before


@pytest.mark.parametrize("spoil", [Work.lose_lease, Work.drain, Work.move, Work.replace])
async def test_no_write_is_sent_for_an_object_that_is_not_surely_ours(
    work: Work, spoil: Callable[[Work], Awaitable[None]]
) -> None:
    request, error = work.request, LeaseLost if spoil is Work.lose_lease else NotOwned
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


@pytest.mark.parametrize("exists", [True, False])
async def test_a_child_is_not_written_when_the_lease_is_lost_while_it_is_read(
    work: Work, exists: bool
) -> None:
    if exists:
        await work.request.ensure(CHILD)

    def read(_: Client, verb: str, resource: GroupResource, __: str) -> bool:
        if resource == CONFIGMAPS.id and verb == "get":
            work.scene.clock._elapsed += TIMING.lease_duration
        return True

    work.scene.cluster.server.allows = read
    with pytest.raises(LeaseLost):
        await work.request.ensure({**CHILD, "data": {"a": "2"}})
    with pytest.raises(LeaseLost):
        await work.request.delete(CHILD)
    assert bool((await work.scene.configmaps.list()).items) is exists


async def test_a_child_is_created_once_with_the_shards_label_and_a_controller(work: Work) -> None:
    work.scene.configmaps.lose(Unavailable("no answer"))
    with pytest.raises(Unavailable):
        await work.request.ensure(CHILD)
    child = await work.child()

    assert metadata_of(child)["labels"] == {"app": "demo", OWNER: ME}
    assert metadata_of(child)["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "name": "one",
            "uid": work.request.metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert await work.request.ensure(CHILD, replace=["data"]) == child


@pytest.mark.parametrize(
    ("before", "wanted", "replace", "after"),
    [
        ({"a": "1", "b": "1"}, {"a": "2", "c": "2"}, [], {"a": "2", "b": "1", "c": "2"}),
        ({"a": "1", "b": "2"}, {"a": None}, [], {"b": "2"}),
        ({"a": "1"}, {"b": "2"}, ["data"], {"b": "2"}),
    ],
)
async def test_a_child_becomes_what_its_author_says_and_keeps_the_rest(
    work: Work, before: Json, wanted: Json, replace: list[str], after: Json
) -> None:
    await work.request.ensure({**CHILD, "data": before})
    labels: Json = {"name": "child", "labels": {"app": "demo", "tier": "web"}}

    child = await work.request.ensure(
        {"kind": "ConfigMap", "metadata": labels, "data": wanted}, replace=replace
    )

    assert child["data"] == after
    assert metadata_of(child)["labels"] == {"app": "demo", "tier": "web", OWNER: ME}


@pytest.mark.parametrize(
    ("metadata", "error", "message"),
    [
        ({"labels": {OWNER: OTHER}}, NotOwned, OTHER),
        ({"ownerReferences": None}, NameTaken, "has no controller: adopt it by ensure"),
        ({"ownerReferences": [FORMER]}, NameTaken, "one"),
    ],
    ids=["another shard's", "by hand", "former parent's"],
)
async def test_what_is_no_child_of_ours_is_left_alone(
    work: Work, metadata: Mapping[str, Json], error: type[SharderError], message: str
) -> None:
    await work.request.ensure(CHILD)
    await work.scene.configmaps.patch(CHILD_REF, {"metadata": metadata})
    before = await work.child()

    with pytest.raises(error, match=message):
        await work.request.ensure({**CHILD, "data": {"a": "2"}})
    with pytest.raises(NotOwned) if error is NotOwned else nullcontext():
        assert await work.request.delete(CHILD) is True
    assert await work.child() == before


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({}, "needs metadata.name"),
        ({"name": "child", "namespace": "elsewhere"}, "must be in one namespace"),
    ],
)
async def test_a_child_that_cannot_be_controlled_is_invalid(
    work: Work, metadata: Mapping[str, Json], message: str
) -> None:
    with pytest.raises(InvalidObject, match=message):
        await work.request.ensure({"kind": "ConfigMap", "metadata": metadata})


async def test_a_child_that_waits_for_its_finalizers_is_not_deleted_again(work: Work) -> None:
    metadata: Json = {"name": "child", "finalizers": [THEIRS]}
    await work.request.ensure({**CHILD, "metadata": metadata})
    assert await work.request.delete(CHILD) is False
    before = await work.child()

    assert await work.request.delete(CHILD) is False
    assert await work.child() == before
    assert metadata_of(before)["deletionTimestamp"]


async def test_a_condition_keeps_others_and_the_time_of_its_last_transition(work: Work) -> None:
    other: Json = {"type": "Other", "status": "False", "of": "another controller"}
    odd: Json = {"status": {"replicas": 3, "conditions": [other, "odd", {"type": "Ready"}]}}
    seen = list[Json]()
    await work.scene.secrets.status().patch(ONE, odd)
    await work.request.get()
    for status, reason in ((True, "Synced"), (True, "Restored"), (None, "Unclear")):
        document = await work.request.set_condition("Ready", status=status, reason=reason)
        seen.append(document["status"])
        work.scene.clock._elapsed += 1

    states = (("True", "Synced", 0), ("True", "Restored", 0), ("Unknown", "Unclear", 2))
    for found, (told, reason, second) in zip(seen, states, strict=True):
        time = f"2026-03-01T12:00:0{second}Z"
        ready: dict[str, Json] = {"type": "Ready", "status": told, "reason": reason, "message": ""}
        assert found == {
            "replicas": 3,
            "conditions": [other, {**ready, "lastTransitionTime": time}],
        }


async def test_an_event_is_on_the_object_and_not_repeated_for_ten_minutes(work: Work) -> None:
    for _ in range(2):
        await work.request.event("Failed", "no quota")
    (event,) = (await work.scene.cluster.events.list()).items
    await work.request.event("Failed", "still no quota")
    await work.scene.clock.advance(600)
    await work.request.event("Failed", "no quota")

    assert len((await work.scene.cluster.events.list()).items) == 3
    about = event["involvedObject"]
    assert isinstance(about, Mapping)
    assert (about["kind"], about["name"]) == ("Secret", "one")
    assert (event["type"], event["reportingInstance"]) == ("Normal", ME)


async def test_an_event_that_is_not_taken_is_logged_once_and_no_error(
    work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "sharder.runtime.events")
    work.scene.cluster.events.fail(*[Forbidden("no right")] * 3)
    for _ in range(4):
        await work.request.event("Synced", "done")

    assert len((await work.scene.cluster.events.list()).items) == 1
    assert [m for m in caplog.messages if "event" in m] == [
        "event not recorded: default/one: no right",
        "events are recorded again",
    ]

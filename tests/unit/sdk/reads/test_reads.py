"""Reads from memory: what they save, and that they are never older than what was written."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import pytest

from sharder.core.api.meta import Json
from sharder.core.errors import Unavailable
from sharder.core.names import ObjectRef
from sharder.ports import Changed, Listed
from sharder.sdk import Request
from sharder.sdk.reads.cache import ObjectCache, Progress
from sharder.sdk.testing.fake_clock import FakeClock, settle
from sharder.sdk.testing.rules import merge
from sharder.sdk.testing.writer import Admission, Attributes
from sharder.shard.objects import Document, whole
from tests.unit.sdk.scene import (
    CONFIGMAPS,
    ME,
    OTHER,
    OWNER,
    Controller,
    Scene,
    Webhook,
    at_work,
)

BOTH = ("secrets", "configmaps")
CHILD = ObjectRef("default", "child-0")


@dataclass
class MakesOneChild:
    """An author's function that creates a child with a new name unless there is one."""

    names: "count[int]" = field(default_factory=count)
    before: Callable[[Request], None] = lambda _: None

    async def __call__(self, request: Request) -> None:
        if request.metadata.deletion_timestamp or await request.children("configmaps"):
            return
        self.before(request)
        body: dict[str, Json] = {
            "kind": "ConfigMap",
            "metadata": {"name": f"child-{next(self.names)}"},
        }
        await request.ensure(body)


async def children(scene: Scene) -> list[str]:
    return [str(tree["metadata"]["name"]) for tree in (await scene.configmaps.list()).items]  # type: ignore[index, call-overload]


# What is read


async def test_a_reconcile_that_changes_nothing_sends_no_request() -> None:
    scene = Scene()
    ref = await scene.create_secret("one")

    async def reconcile(request: Request) -> None:
        secret = await request.get()
        await request.children("configmaps")
        body: dict[str, Json] = {
            "kind": "ConfigMap",
            "metadata": {"name": "child"},
            "data": secret["data"],
        }
        await request.ensure(body)

    async with at_work(scene, reconcile, cache=BOTH):
        assert await children(scene) == ["child"]
        await settle()
        scene.cluster.requests.clear()
        await scene.label(ref, {"changed": "yes"})

        assert scene.cluster.requests == []


# This shard's own writes


async def test_a_child_whose_creation_had_no_answer_is_not_made_again() -> None:
    scene = Scene()
    await scene.create_secret("one")

    def fail(_: Request) -> None:
        scene.hold_up_watches(CONFIGMAPS)
        scene.configmaps.lose(Unavailable("timed out"))

    async with at_work(scene, MakesOneChild(before=fail), cache=BOTH):
        await scene.clock.advance(20)
        assert await children(scene) == ["child-0"]
        await scene.let_watches_flow()
        await scene.clock.advance(60)

        assert await children(scene) == ["child-0"]


async def test_what_this_shard_has_deleted_comes_back_only_after_a_restore_of_etcd() -> None:
    progress = Progress(FakeClock())
    cache = ObjectCache(progress, lambda _: True)
    child = whole(b'{"metadata":{"name":"a","resourceVersion":"5"}}', resource=CONFIGMAPS)
    cache.update(Listed([child], "7"))
    progress.move("7")
    cache.deleted(child.metadata)

    for event in (Listed([child], "7"), Changed(child), Listed([child], "6")):
        cache.update(event)
        is_restored = event == Listed([child], "6")
        assert (await cache.get(child.metadata.ref) is not None) == is_restored


def give_the_next_child_to(scene: Scene, shard: str | None) -> None:
    """Do as a webhook does that does not know this shard yet."""

    async def admit(attributes: Attributes) -> Document:
        assert attributes.obj is not None
        if attributes.operation != "CREATE" or attributes.resource.id != CONFIGMAPS.id:
            return attributes.obj
        scene.cluster.server.writer.admission = Admission()
        merged = merge(attributes.obj, {"metadata": {"labels": {OWNER: shard}}})
        assert isinstance(merged, dict)
        return merged

    scene.cluster.server.writer.admission = Webhook(admit)


@pytest.mark.parametrize("other", [None, OTHER])
async def test_a_child_that_a_webhook_gives_to_others_is_not_made_again(other: str | None) -> None:
    scene = Scene()
    ref = await scene.create_secret("one")
    give_the_next_child_to(scene, other)

    async with at_work(scene, MakesOneChild(), cache=BOTH):
        await scene.create_secret("two")  # its child moves the watch on
        await scene.label(ref, {"changed": "yes"})
        await scene.clock.advance(20)
        assert await children(scene) == ["child-0", "child-1"]
        await scene.configmaps.patch(CHILD, {"metadata": {"labels": {OWNER: ME}}})
        await scene.clock.advance(60)

        assert await children(scene) == ["child-0", "child-1"]


# What the shard before has written


async def test_children_that_cannot_be_listed_keep_an_object_waiting() -> None:
    scene, controller = Scene(), Controller()
    await scene.create_secret("one")

    async with at_work(scene, controller, cache=BOTH):
        assert controller.started == ["one"]
        scene.configmaps.fail(Unavailable("away"), Unavailable("away"))
        await scene.create_secret("two")
        assert controller.started == ["one"]
        await scene.clock.advance(10)

        assert controller.started == ["one", "two"]


async def test_what_a_new_list_shows_changed_waits_for_its_children() -> None:
    """It can have been on another shard while the watch was broken."""
    scene, controller = Scene(), Controller()

    async with at_work(scene, controller, cache=BOTH):
        ref = await scene.create_secret("one")
        scene.hold_up_watches(CONFIGMAPS)
        scene.secrets.hang_up()
        await settle()
        await scene.configmaps.create(
            "default", {"metadata": {"name": "made-elsewhere", "labels": {OWNER: ME}}}
        )
        await scene.label(ref, {"changed": "yes"})
        scene.secrets.compact()
        await scene.clock.advance(10)
        assert controller.started == ["one"]
        await scene.let_watches_flow()
        await scene.clock.advance(1)

        assert controller.started == ["one", "one"]


async def test_an_object_that_drains_while_it_waits_for_its_children_is_not_worked_on() -> None:
    scene, controller = Scene(), Controller()

    async with at_work(scene, controller, cache=BOTH):
        scene.hold_up_watches(CONFIGMAPS)
        await scene.configmaps.create(
            "default", {"metadata": {"name": "late", "labels": {OWNER: ME}}}
        )
        ref = await scene.create_secret("one")
        await scene.drain(ref)
        await scene.let_watches_flow()
        await scene.clock.advance(1)

        assert controller.started == []
        assert OWNER not in await scene.labels(ref)

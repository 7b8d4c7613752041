"""Children without a controller, as a restore leaves them behind: adopted only on request."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import pytest

from sharder.core.api.meta import Json
from sharder.core.names import ObjectRef, RingName, drain_label, owner_label
from sharder.sdk import Request, Shard
from sharder.sdk.reconciler import Reconcile
from sharder.sdk.testing import SETTINGS, FakeCluster, ShardTest
from sharder.sdk.testing.writer import Admission, Attributes
from sharder.shard.objects import Document
from tests.unit.sdk.scene import Scene, Webhook, at_work

RING: Final = RingName("demo")
OWNER, DRAIN = owner_label(RING), drain_label(RING)
PLAIN: Final[Mapping[str, Json]] = {"uid": "1", "kind": "Node", "name": "n", "apiVersion": "v1"}


async def nothing() -> None:
    """Let nothing happen."""


def reconciler(*, adopt: bool, before: Callable[[], Awaitable[object]] = nothing) -> Reconcile:
    """A function that wants one ConfigMap, `shared`, for each Secret."""

    async def reconcile(request: Request) -> None:
        await before()
        if request.metadata.deletion_timestamp is None:
            metadata: Json = {"name": "shared", "labels": {"made": "yes"}}
            body: dict[str, Json] = {"kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}
            await request.ensure(body, adopt=adopt)

    return reconcile


def shard(before: Callable[[], Awaitable[object]] = nothing) -> Shard:
    found = Shard(ring=RING, settings=SETTINGS)
    found.reconciler("secrets", reconciler(adopt=True, before=before), owns=["configmaps"])
    return found


async def restore(cluster: FakeCluster, **metadata: Json) -> None:
    """Create the child as a restore does: before its parent, and without a controller."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "0", "kept": "yes"}}
    await cluster.create({**body, "metadata": {"name": "shared", **metadata}})


def secret(name: str, **metadata: Json) -> Mapping[str, object]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, **metadata}}


async def controllers(cluster: FakeCluster) -> list[str]:
    owners = (await cluster.metadata("configmaps", "shared")).owner_references or []
    return [owner.name for owner in owners if owner.controller]


@pytest.mark.parametrize(
    "labels",
    [{}, {OWNER: SETTINGS.name}, {OWNER: "another", DRAIN: "true"}],
    ids=["none", "own", "another"],
)
async def test_a_child_that_no_controller_has_is_adopted(labels: Mapping[str, Json]) -> None:
    async with ShardTest(shard()) as test:
        await restore(test.cluster, labels={"x": "y", **labels}, ownerReferences=[PLAIN])
        before = await test.cluster.metadata("configmaps", "shared")
        await test.create(secret("one"))

        child = await test.cluster.get("configmaps", "shared")
        meta = await test.cluster.metadata("configmaps", "shared")

    assert await controllers(test.cluster) == ["one"]
    assert [owner.name for owner in meta.owner_references or ()] == ["n", "one"]
    assert meta.labels == {"x": "y", "made": "yes", OWNER: SETTINGS.name}
    assert child["data"] == {"a": "1", "kept": "yes"}
    assert meta.uid == before.uid


async def test_a_child_of_another_controller_is_never_adopted() -> None:
    async with ShardTest(shard()) as test:
        await restore(test.cluster, ownerReferences=[{**PLAIN, "controller": True}])
        await test.create(secret("one"))

        assert await controllers(test.cluster) == ["n"]


async def test_of_two_parents_one_adopts_and_the_other_is_refused() -> None:
    cluster = FakeCluster()
    async with ShardTest(shard(), cluster) as test:
        await restore(cluster)
        await test.create(secret("other"), owner="another")
        uid = (await cluster.metadata("secrets", "other")).uid
        owners: Json = [{**PLAIN, "name": "other", "uid": uid, "controller": True}]

        async def win(attributes: Attributes) -> Document:
            cluster.server.writer.admission = Admission()
            body: Json = {"metadata": {"ownerReferences": owners}}
            await cluster.store("configmaps").patch(ObjectRef("default", "shared"), body)
            return attributes.obj or {}

        cluster.server.writer.admission = Webhook(win)
        await test.create(secret("one"))
        await cluster.advance(10)

        assert await controllers(cluster) == ["other"]


async def test_a_parent_that_is_being_deleted_adopts_nothing_even_if_the_watch_is_late() -> None:
    cluster = FakeCluster()

    async def delete() -> None:
        store, ref = cluster.store("secrets"), ObjectRef("default", "one")
        meta = await cluster.metadata("secrets", "one")
        await store.delete(ref, uid=meta.uid, resource_version=meta.resource_version)

    async with ShardTest(shard(before=delete), cluster) as test:
        await restore(cluster)
        await test.create(secret("one", finalizers=["example.org/theirs"]))
        await cluster.advance(10)

        assert await controllers(cluster) == []


async def test_a_taken_name_is_an_event_on_the_parent(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    await scene.configmaps.create("default", {"metadata": {"name": "shared"}})
    await scene.create_secret("one")

    async with at_work(scene, reconciler(adopt=False)):
        await scene.clock.advance(30)

    (event,) = (await scene.cluster.events.list()).items
    about = event["involvedObject"]
    assert isinstance(about, Mapping)
    assert (event["reason"], event["type"], about["name"]) == ("NameTaken", "Warning", "one")
    assert event["message"] == (
        "ConfigMap default/shared exists and has no controller: adopt it by "
        "ensure(…, adopt=True), or delete or rename it"
    )
    assert caplog.messages[0] == f"reconcile failed: default/one: {event['message']}"

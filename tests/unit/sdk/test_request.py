"""What an author's function may read and write, and when it is refused."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import msgspec
import pytest
from typing_extensions import override

from sharder.core.api.meta import Json, ObjectMeta, PartialObject
from sharder.core.errors import (
    ConfigError,
    Conflict,
    InvalidObject,
    LeaseLost,
    NotFound,
    SharderError,
    Unavailable,
)
from sharder.core.names import ObjectRef, ShardName
from sharder.sdk import NotOwned, Request
from sharder.sdk.owned import Identity, OwnedObjects
from sharder.sdk.request import Collected, Workplace
from tests.support.fakes import Tree
from tests.unit.sdk.scene import (
    CONFIGMAPS,
    DRAIN,
    ME,
    OTHER,
    OWNER,
    RING,
    SECRETS,
    FakeDocuments,
    Scene,
)

CHILD: Mapping[str, Json] = {
    "kind": "ConfigMap",
    "metadata": {"name": "child", "labels": {"app": "demo"}},
    "data": {"a": "1"},
}
CHILD_REF = ObjectRef("default", "child")
Spoil: TypeAlias = Callable[["Bench"], None]


class Bench:
    """One object of ours with a request about it, and the means to take it away."""

    def __init__(self, scene: Scene, ref: ObjectRef) -> None:
        self.scene = scene
        self.ref = ref
        self.lease_is_valid = True
        identity = Identity(ring=RING, shard=ShardName(ME))
        self.owned = OwnedObjects(identity)
        self.workplace = Workplace(
            identity=identity,
            owned=self.owned,
            main=Collected(resource=SECRETS, documents=scene.cluster.documents(SECRETS)),
            status=scene.cluster.statuses(SECRETS),
            children=(
                Collected(resource=CONFIGMAPS, documents=scene.cluster.documents(CONFIGMAPS)),
            ),
            holds_lease=lambda: self.lease_is_valid,
        )

    @classmethod
    async def make(cls) -> "Bench":
        scene = Scene()
        bench = cls(scene, await scene.create_secret("one"))
        await bench.refresh()
        return bench

    async def refresh(self) -> None:
        """Show the shard the object as it is now, as the watch does."""
        tree = await self.scene.secrets.get(self.ref)
        self.owned.update(msgspec.convert(tree, PartialObject))

    def request(self) -> Request:
        meta = self.owned.get(self.ref)
        assert meta is not None
        return Request(self.ref, meta, self.workplace)

    def show(self, labels: dict[str, str], *, uid: str | None = None) -> None:
        meta = self.owned.get(self.ref) or ObjectMeta()
        changed = msgspec.structs.replace(meta, labels=labels, uid=uid or meta.uid)
        self.owned.update(PartialObject(metadata=changed))

    def lose_lease_while_reading_children(self) -> None:
        bench = self

        class Documents(FakeDocuments):
            @override
            async def get(self, ref: ObjectRef) -> msgspec.Raw:
                bench.lease_is_valid = False
                return await super().get(ref)

        children = Collected(resource=CONFIGMAPS, documents=Documents(self.scene.configmaps))
        self.workplace = replace(self.workplace, children=(children,))

    async def child(self) -> Tree:
        return await self.scene.configmaps.get(CHILD_REF)


class SecretShape(msgspec.Struct):
    data: dict[str, str]


async def test_the_whole_object_is_read_as_it_is_now() -> None:
    bench = await Bench.make()
    request = bench.request()
    await bench.scene.secrets.patch(bench.ref, {"data": {"k": "djI="}})

    document = await request.get()

    assert document["data"] == {"k": "djI="}


async def test_the_object_is_decoded_as_the_author_wants_it() -> None:
    bench = await Bench.make()

    secret = await bench.request().get(SecretShape)

    assert secret == SecretShape(data={"k": "djE="})


async def test_an_object_of_another_shape_is_invalid() -> None:
    bench = await Bench.make()
    await bench.scene.secrets.patch(bench.ref, {"data": None})

    with pytest.raises(InvalidObject, match="data"):
        await bench.request().get(SecretShape)


@pytest.mark.parametrize("labels", [{OWNER: OTHER}, {DRAIN: "true"}, {OWNER: None}])
async def test_an_object_that_is_not_ours_any_more_is_not_handed_out(
    labels: Mapping[str, str | None],
) -> None:
    bench = await Bench.make()
    request = bench.request()
    await bench.scene.label(bench.ref, labels)

    with pytest.raises(NotOwned):
        await request.get()
    with pytest.raises(NotOwned):
        await request.apply(CHILD)


async def test_a_successor_of_the_same_name_is_another_object() -> None:
    bench = await Bench.make()
    request = bench.request()
    meta = request.metadata
    await bench.scene.secrets.delete(
        bench.ref, uid=meta.uid, resource_version=meta.resource_version
    )
    await bench.scene.create_secret("one")

    with pytest.raises(NotOwned):
        await request.get()


async def test_a_patch_is_guarded_by_what_the_request_saw_last() -> None:
    bench = await Bench.make()
    request = bench.request()
    await bench.scene.label(bench.ref, {"changed": "yes"})

    with pytest.raises(Conflict):
        await request.patch({"data": {"k": "djI="}})

    assert (await bench.scene.secrets.get(bench.ref))["data"] == {"k": "djE="}


async def test_a_patch_after_a_fresh_read_gets_through() -> None:
    bench = await Bench.make()
    request = bench.request()
    await bench.scene.label(bench.ref, {"changed": "yes"})

    await request.get()
    await request.patch({"metadata": {"annotations": {"seen": "yes"}}})
    document = await request.patch({"data": {"k": "djI="}})

    assert document["data"] == {"k": "djI="}
    assert request.metadata.annotation("seen") == "yes"


async def test_the_status_is_written_apart() -> None:
    bench = await Bench.make()

    document = await bench.request().patch_status({"status": {"done": True}, "data": {}})

    assert document["status"] == {"done": True}
    assert document["data"] == {"k": "djE="}


def _lose_lease(bench: Bench) -> None:
    bench.lease_is_valid = False


def _drain(bench: Bench) -> None:
    bench.show({OWNER: ME, DRAIN: "true"})


def _move(bench: Bench) -> None:
    bench.show({OWNER: OTHER})


def _remove(bench: Bench) -> None:
    bench.owned.forget(bench.ref)


def _replace(bench: Bench) -> None:
    bench.show({OWNER: ME}, uid="another")


SPOILED = [
    (_lose_lease, LeaseLost),
    (_drain, NotOwned),
    (_move, NotOwned),
    (_remove, NotOwned),
    (_replace, NotOwned),
]


@pytest.mark.parametrize(("spoil", "error"), SPOILED)
async def test_no_write_is_sent_for_an_object_that_is_not_surely_ours(
    spoil: Spoil, error: type[SharderError]
) -> None:
    bench = await Bench.make()
    request = bench.request()
    before = await bench.scene.secrets.get(bench.ref)
    spoil(bench)

    for write in (request.patch({}), request.patch_status({}), request.apply(CHILD)):
        with pytest.raises(error):
            await write

    assert await bench.scene.secrets.get(bench.ref) == before
    with pytest.raises(NotFound):
        await bench.child()


@pytest.mark.parametrize("exists", [True, False])
async def test_a_child_is_not_written_when_the_lease_is_lost_while_it_is_read(
    exists: bool,
) -> None:
    bench = await Bench.make()
    if exists:
        await bench.request().apply(CHILD)
    bench.lose_lease_while_reading_children()

    with pytest.raises(LeaseLost):
        await bench.request().apply({**CHILD, "data": {"a": "2"}})


@pytest.mark.parametrize(("spoil", "error"), SPOILED)
async def test_a_side_effect_is_refused_like_a_write(
    spoil: Spoil, error: type[SharderError]
) -> None:
    bench = await Bench.make()
    request = bench.request()
    spoil(bench)

    with pytest.raises(error):
        request.check()


async def test_nothing_is_written_after_the_reconcile() -> None:
    bench = await Bench.make()
    request = bench.request()
    request.close()

    with pytest.raises(NotOwned, match="has ended"):
        await request.patch({"data": {}})


async def test_a_child_is_created_with_the_shards_label_and_a_controller() -> None:
    bench = await Bench.make()
    uid = bench.request().metadata.uid

    await bench.request().apply(CHILD)

    child = msgspec.convert(await bench.child(), PartialObject)
    assert child.metadata.labels == {"app": "demo", OWNER: ME}
    assert (await bench.child())["metadata"]["ownerReferences"] == [  # type: ignore[index,call-overload]  # JSON
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "name": "one",
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


async def test_a_child_that_is_as_it_should_be_is_not_written() -> None:
    bench = await Bench.make()
    await bench.request().apply(CHILD)
    before = await bench.child()

    assert await bench.request().apply(CHILD) == before
    assert await bench.child() == before


async def test_a_child_is_made_as_the_author_says() -> None:
    bench = await Bench.make()
    await bench.request().apply({**CHILD, "data": {"a": "1", "b": "2"}})

    await bench.request().apply({**CHILD, "data": {"b": "3"}}, replace=["data"])

    assert (await bench.child())["data"] == {"b": "3"}


async def test_another_shards_child_is_left_alone() -> None:
    bench = await Bench.make()
    await bench.request().apply(CHILD)
    await bench.scene.configmaps.patch(CHILD_REF, {"metadata": {"labels": {OWNER: OTHER}}})
    before = await bench.child()

    with pytest.raises(NotOwned, match=OTHER):
        await bench.request().apply({**CHILD, "data": {"a": "2"}})

    assert await bench.child() == before


async def test_an_object_that_somebody_made_by_hand_is_left_alone() -> None:
    bench = await Bench.make()
    await bench.scene.configmaps.create(
        "default", {"metadata": {"name": "child", "labels": {OWNER: ME}}}
    )
    before = await bench.child()

    with pytest.raises(NotOwned, match="not controlled"):
        await bench.request().apply(CHILD)

    assert await bench.child() == before


async def test_a_child_is_not_created_twice_when_the_answer_was_lost() -> None:
    bench = await Bench.make()
    bench.scene.configmaps.lose(Unavailable("no answer"))
    with pytest.raises(Unavailable):
        await bench.request().apply(CHILD)
    before = await bench.child()

    await bench.request().apply(CHILD)

    assert await bench.child() == before


async def test_a_child_of_a_resource_that_is_not_declared_is_refused() -> None:
    bench = await Bench.make()

    with pytest.raises(ConfigError, match="owns"):
        await bench.request().apply({"kind": "Pod", "metadata": {"name": "child"}})


@pytest.mark.parametrize("metadata", [{}, {"name": "child", "namespace": "elsewhere"}])
async def test_a_child_that_cannot_be_controlled_is_invalid(metadata: Mapping[str, Json]) -> None:
    bench = await Bench.make()

    with pytest.raises(InvalidObject):
        await bench.request().apply({"kind": "ConfigMap", "metadata": metadata})

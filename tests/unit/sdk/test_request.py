"""What an author's function may read and write, and when it is refused."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec
import pytest

from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import (
    Conflict,
    InvalidObject,
    LeaseLost,
    NotFound,
    SharderError,
    Unavailable,
)
from sharder.sdk.reads.owned import NotOwned
from sharder.sdk.writes.children import NameTaken
from tests.unit.sdk.bench import CHILD, CHILD_REF, Bench
from tests.unit.sdk.scene import (
    DRAIN,
    ME,
    OTHER,
    OWNER,
)

Spoil: TypeAlias = Callable[["Bench"], None]


async def test_the_whole_object_is_read_as_it_is_now() -> None:
    bench = await Bench.make()
    request = bench.request()
    await bench.scene.secrets.patch(bench.ref, {"data": {"k": "djI="}})

    document = await request.get()

    assert document["data"] == {"k": "djI="}


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
        await request.ensure(CHILD)


async def test_a_patch_is_guarded_by_what_the_request_saw_last() -> None:
    bench = await Bench.make()
    request = bench.request()
    await bench.scene.label(bench.ref, {"changed": "yes"})

    with pytest.raises(Conflict):
        await request.patch({"data": {"k": "djI="}})

    assert (await bench.scene.secrets.get(bench.ref))["data"] == {"k": "djE="}


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

    for write in (request.patch({}), request.patch_status({}), request.ensure(CHILD)):
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
        await bench.request().ensure(CHILD)
    bench.lose_lease_while_reading_children()

    with pytest.raises(LeaseLost):
        await bench.request().ensure({**CHILD, "data": {"a": "2"}})


async def test_nothing_is_written_after_the_reconcile() -> None:
    bench = await Bench.make()
    request = bench.request()
    request.permit.close()

    with pytest.raises(NotOwned, match="has ended"):
        await request.patch({"data": {}})


async def test_a_child_is_created_with_the_shards_label_and_a_controller() -> None:
    bench = await Bench.make()
    uid = bench.request().metadata.uid

    await bench.request().ensure(CHILD)

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


async def test_another_shards_child_is_left_alone() -> None:
    bench = await Bench.make()
    await bench.request().ensure(CHILD)
    await bench.scene.configmaps.patch(CHILD_REF, {"metadata": {"labels": {OWNER: OTHER}}})
    before = await bench.child()

    with pytest.raises(NotOwned, match=OTHER):
        await bench.request().ensure({**CHILD, "data": {"a": "2"}})

    assert await bench.child() == before


async def test_an_object_that_a_user_made_by_hand_is_left_alone() -> None:
    bench = await Bench.make()
    await bench.scene.configmaps.create(
        "default", {"metadata": {"name": "child", "labels": {OWNER: ME}}}
    )
    before = await bench.child()

    message = (
        "ConfigMap default/child exists and has no controller: adopt it by ensure(…, adopt=True), "
        "or delete or rename it"
    )
    with pytest.raises(NameTaken) as refused:
        await bench.request().ensure(CHILD)

    assert str(refused.value) == message
    assert await bench.child() == before


async def test_a_child_is_not_created_twice_when_the_answer_was_lost() -> None:
    bench = await Bench.make()
    bench.scene.configmaps.lose(Unavailable("no answer"))
    with pytest.raises(Unavailable):
        await bench.request().ensure(CHILD)
    before = await bench.child()

    await bench.request().ensure(CHILD)

    assert await bench.child() == before


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
    bench = await Bench.make()

    with pytest.raises(InvalidObject, match=message):
        await bench.request().ensure({"kind": "ConfigMap", "metadata": metadata})

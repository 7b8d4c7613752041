"""What a request deletes, and which finalizers and conditions it writes."""

from collections.abc import Awaitable, Callable, Mapping

import pytest

from sharder.core.api.meta import Json
from sharder.core.errors import Conflict, LeaseLost, NotFound
from sharder.core.names import ObjectRef
from sharder.sdk.reads.owned import NotOwned
from sharder.shard.objects import Document
from tests.unit.sdk.bench import CHILD, CHILD_REF, Bench
from tests.unit.sdk.scene import OTHER, OWNER

NAME, THEIRS = "example.com/cleanup", "example.org/theirs"


async def bench_with(metadata: Mapping[str, Json] | None = None, **fields: Json) -> Bench:
    """A bench whose object has more in it."""
    bench = await Bench.make()
    await bench.scene.secrets.patch(bench.ref, {"metadata": metadata or {}, **fields})
    await bench.scene.secrets.status().patch(bench.ref, fields)
    await bench.refresh()
    return bench


async def finalizers(bench: Bench) -> Json:
    return metadata_of(await bench.scene.secrets.get(bench.ref)).get("finalizers")


def metadata_of(tree: Document) -> Mapping[str, Json]:
    metadata = tree["metadata"]
    assert isinstance(metadata, Mapping)
    return metadata


async def test_a_child_that_waits_for_its_finalizers_is_not_deleted_again() -> None:
    bench = await Bench.make()
    await bench.request().ensure({**CHILD, "metadata": {"name": "child", "finalizers": [THEIRS]}})
    assert await bench.request().delete(CHILD) is False
    before = await bench.child()

    assert await bench.request().delete(CHILD) is False

    assert await bench.child() == before
    assert metadata_of(before)["deletionTimestamp"]


async def test_a_child_of_another_shard_is_not_deleted() -> None:
    bench = await Bench.make()
    await bench.request().ensure(CHILD)
    await bench.scene.configmaps.patch(CHILD_REF, {"metadata": {"labels": {OWNER: OTHER}}})

    with pytest.raises(NotOwned):
        await bench.request().delete(CHILD)

    assert await bench.child()


@pytest.mark.parametrize(
    "metadata",
    [
        {"ownerReferences": None},
        {"ownerReferences": None, "labels": {OWNER: None}},
        {"ownerReferences": [{"kind": "Secret", "name": "one", "uid": "old", "controller": True}]},
    ],
    ids=["same shard", "no shard", "former parent"],
)
async def test_an_object_of_the_childs_name_is_no_child_to_delete(
    metadata: Mapping[str, Json],
) -> None:
    bench = await Bench.make()
    await bench.request().ensure(CHILD)
    await bench.scene.configmaps.patch(CHILD_REF, {"metadata": metadata})
    before = await bench.child()

    assert await bench.request().delete(CHILD) is True

    assert await bench.child() == before


async def test_a_child_is_not_deleted_when_the_lease_is_lost_while_it_is_read() -> None:
    bench = await Bench.make()
    await bench.request().ensure(CHILD)
    bench.lose_lease_while_reading_children()

    with pytest.raises(LeaseLost):
        await bench.request().delete(CHILD)

    assert await bench.child()


async def test_the_object_is_deleted_in_the_state_that_was_seen() -> None:
    bench = await Bench.make()
    request = bench.request()
    await bench.scene.label(bench.ref, {"changed": "yes"})

    with pytest.raises(Conflict):
        await request.delete()
    await request.get()
    assert await request.delete() is False

    with pytest.raises(NotFound):
        await bench.scene.secrets.get(bench.ref)
    assert await request.delete() is True


async def test_a_finalizer_is_added_to_those_of_others() -> None:
    bench = await bench_with({"finalizers": [THEIRS]})
    request = bench.request()

    await request.add_finalizer(NAME)

    assert await finalizers(bench) == [THEIRS, NAME]
    assert request.metadata.has_finalizer(NAME)


async def test_a_finalizer_that_another_client_adds_meanwhile_is_not_lost() -> None:
    bench = await Bench.make()
    request = bench.request()
    await bench.scene.secrets.patch(bench.ref, {"metadata": {"finalizers": [THEIRS]}})

    with pytest.raises(Conflict):
        await request.add_finalizer(NAME)

    assert await finalizers(bench) == [THEIRS]


async def test_a_condition_is_set_in_the_status_with_the_time_and_the_generation() -> None:
    bench = await bench_with(status={"replicas": 3})
    bench.show_generation(7)

    document = await bench.request().set_condition("Ready", status=True, reason="Synced")

    assert document["status"] == {
        "replicas": 3,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Synced",
                "message": "",
                "lastTransitionTime": "2026-03-01T12:00:00Z",
                "observedGeneration": 7,
            }
        ],
    }


async def test_a_condition_is_not_written_over_a_state_that_was_not_read() -> None:
    bench = await Bench.make()
    request = bench.request()
    await request.get()
    await bench.scene.secrets.status().patch(
        bench.ref, {"status": {"conditions": [{"type": "Other"}]}}
    )

    with pytest.raises(Conflict):
        await request.set_condition("Ready", status=False, reason="Broken")


@pytest.mark.parametrize("write", ["delete", "child", "finalizer", "condition"])
async def test_nothing_is_written_without_the_lease(write: str) -> None:
    bench = await Bench.make()
    await bench.request().ensure(CHILD)
    request = bench.request()
    before = await bench.scene.secrets.get(bench.ref)
    bench.lease_is_valid = False
    writes: Mapping[str, Callable[[], Awaitable[object]]] = {
        "delete": request.delete,
        "child": lambda: request.delete(CHILD),
        "finalizer": lambda: request.add_finalizer(NAME),
        "condition": lambda: request.set_condition("Ready", status=True, reason="Synced"),
    }

    with pytest.raises(LeaseLost):
        await writes[write]()

    assert await bench.scene.secrets.get(bench.ref) == before
    assert await bench.scene.configmaps.get(ObjectRef("default", "child"))

"""What is kept of whole objects, and how children are found."""

import asyncio

import msgspec
import pytest

from sharder.core.api.meta import Json
from sharder.core.names import ObjectRef
from sharder.ports import Changed, Listed, Removed
from sharder.sdk.reads.cache import ObjectCache, Whole, whole
from sharder.sdk.reads.progress import Progress
from sharder.sdk.testing.fake_clock import FakeClock


def config_map(name: str, *, parent: str = "", value: str = "") -> Whole:
    references: Json = [{"uid": parent, "kind": "Secret", "controller": True}] if parent else []
    tree: Json = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "resourceVersion": "1",
            "ownerReferences": references,
            "managedFields": [{"manager": "kubectl"}],
        },
        "data": {"key": value},
    }
    return whole(msgspec.json.encode(tree), api_version="v1", kind="ConfigMap")


def cache() -> ObjectCache:
    progress = Progress(FakeClock())
    progress.move("1")
    return ObjectCache(progress)


async def names(cache: ObjectCache, uid: str) -> list[str]:
    found = [msgspec.json.decode(raw) for raw in await cache.controlled_by(uid)]
    return [each["metadata"]["name"] for each in found]


def test_an_object_keeps_all_but_its_managed_fields() -> None:
    tree = msgspec.json.decode(config_map("one", parent="p", value="v").raw)

    assert tree == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "one",
            "namespace": "default",
            "resourceVersion": "1",
            "ownerReferences": [{"uid": "p", "kind": "Secret", "controller": True}],
        },
        "data": {"key": "v"},
    }


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        whole(b'{"metadata": 5}', api_version="v1", kind="ConfigMap")


async def test_children_are_found_by_the_uid_of_their_controller_in_order_of_their_names() -> None:
    kept = cache()
    children = [config_map(name, parent="p") for name in ("b", "a")]

    kept.update(Listed([*children, config_map("c", parent="q"), config_map("d")], "1"))

    assert await names(kept, "p") == ["a", "b"]
    assert await names(kept, "q") == ["c"]
    assert await names(kept, "unknown") == []


async def test_a_child_that_gets_another_controller_changes_its_place() -> None:
    kept = cache()
    kept.update(Changed(config_map("one", parent="p")))

    kept.update(Changed(config_map("one", parent="q")))

    assert (await names(kept, "p"), await names(kept, "q")) == ([], ["one"])


async def test_a_removed_object_is_forgotten_and_a_list_replaces_all() -> None:
    kept = cache()
    kept.update(Listed([config_map(name, parent="p") for name in "abc"], "1"))

    kept.update(Removed(config_map("b", parent="p")))
    assert await names(kept, "p") == ["a", "c"]
    kept.update(Listed([config_map("c", parent="p")], "1"))

    assert await names(kept, "p") == ["c"]
    assert await kept.get(ObjectRef("default", "a")) is None


async def test_what_is_not_to_be_kept_is_not() -> None:
    progress = Progress(FakeClock())
    progress.move("1")
    kept = ObjectCache(progress, keep=lambda obj: obj.metadata.name == "a")

    kept.update(Listed([config_map("a"), config_map("b")], "1"))

    assert await kept.get(ObjectRef("default", "a")) is not None
    assert await kept.get(ObjectRef("default", "b")) is None


async def test_no_read_waits_for_a_write_that_a_restored_etcd_has_lost() -> None:
    progress = Progress(FakeClock())
    progress.move("5")
    written = config_map("a").metadata
    progress.wrote(msgspec.structs.replace(written, resource_version="9"))

    progress.move("3")

    async with asyncio.timeout(10):
        await progress.until_shown(written.ref)

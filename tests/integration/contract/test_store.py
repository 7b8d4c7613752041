"""What `KubeStore` and `KubeObjects` make of the answers of a real API server.

What the server itself does is in `sequences.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import pytest

from sharder.core.api.lease import Lease, LeaseSpec, lease_body, parse_time
from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import Conflict, NotFound, Rewound
from sharder.core.names import GroupResource, ObjectRef
from sharder.kube.client import Client
from sharder.kube.objects import KubeObjects
from sharder.kube.store import KubeStore, Scope
from sharder.kube.typed_stores import LEASES
from sharder.ports import Bookmark, Changed, Removed, Store, WatchEvent

T = TypeVar("T")

RENEWED = "2026-03-01T12:00:00.000120Z"
CONFIG_MAPS = GroupResource("", "configmaps")


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """An empty namespace of the server."""

    namespace: str
    client: Client

    @property
    def objects(self) -> KubeObjects:
        return KubeObjects(self.client)

    def leases(self, labels: str) -> KubeStore[Lease]:
        """The Leases of the namespace that match."""
        return KubeStore(self.client, Lease, LEASES, Scope(self.namespace, labels))

    def ref(self, name: str) -> ObjectRef:
        return ObjectRef(self.namespace, name)

    async def create(self, name: str, **labels: str) -> Lease:
        spec = LeaseSpec(holder_identity=name, lease_duration_seconds=15, renew_time=RENEWED)
        body = lease_body(name=name, labels=labels, annotations={}, spec=spec)
        return await self.leases("").create(self.namespace, body)

    async def delete(self, lease: Lease) -> None:
        meta = lease.metadata
        await self.leases("").delete(
            meta.ref, uid=meta.uid, resource_version=meta.resource_version
        )


@pytest.fixture
def world(client: Client, own_namespace: str) -> World:
    return World(namespace=own_namespace, client=client)


def label(**labels: str | None) -> Json:
    return {"metadata": {"labels": labels}}


async def maps(world: World, **scope: str) -> Store[PartialObject]:
    """The ConfigMaps of this test, and of these only what is asked for."""
    found = await world.objects.find(CONFIG_MAPS)
    return world.objects.of(found, f"of={world.namespace}", **scope)


async def create_map(world: World, name: str) -> PartialObject:
    body: Json = {"metadata": {"name": name, "labels": {"of": world.namespace}}}
    return await (await maps(world)).create(world.namespace, body)


async def told(store: Store[T], version: str, count: int) -> list[WatchEvent[T]]:
    """The next events after `version`, bookmarks aside."""
    events: list[WatchEvent[T]] = []
    async with asyncio.timeout(20), aclosing(store.watch(version)) as stream:
        async for event in stream:
            if not isinstance(event, Bookmark):
                events.append(event)
            if len(events) == count:
                break
    return events


async def test_a_created_object_is_read_back_as_it_was_written(world: World) -> None:
    created = await world.create("a", team="blue")

    read = await world.leases("").get(world.ref("a"))

    assert read == created
    assert (read.api_version, read.kind) == ("coordination.k8s.io/v1", "Lease")
    assert read.metadata.labels == {"team": "blue"}
    assert read.spec.renew_time == RENEWED
    assert read.metadata.uid


@pytest.mark.parametrize("call", ["get", "patch", "delete"])
async def test_what_is_not_there_is_not_found(world: World, call: str) -> None:
    store, ref = world.leases(""), world.ref("missing")
    calls: dict[str, Callable[[], Awaitable[Lease | None]]] = {
        "get": lambda: store.get(ref),
        "patch": lambda: store.patch(ref, label(a="b")),
        "delete": lambda: store.delete(ref, uid="1", resource_version="1"),
    }

    with pytest.raises(NotFound):
        await calls[call]()


async def test_a_patch_computed_from_an_older_state_is_a_conflict(world: World) -> None:
    store = world.leases("")
    old = await world.create("a")
    await store.patch(old.metadata.ref, label(a="1"))
    late: Json = {
        "metadata": {"resourceVersion": old.metadata.resource_version, "labels": {"a": "2"}}
    }

    with pytest.raises(Conflict):
        await store.patch(old.metadata.ref, late)

    assert (await store.get(old.metadata.ref)).metadata.label("a") == "1"


async def test_an_apply_creates_what_is_missing_and_leaves_what_it_does_not_name(
    world: World,
) -> None:
    ref = world.ref("a")
    body: Json = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "a"},
    }

    first = await world.leases("").apply(ref, body)
    await world.leases("").patch(ref, label(one="1"))
    second = await world.leases("").apply(ref, body)

    assert second.metadata.uid == first.metadata.uid
    assert second.metadata.labels == {"one": "1"}


async def test_only_the_state_that_was_seen_is_deleted(world: World) -> None:
    store = world.leases("")
    old = await world.create("a")
    new = await store.patch(old.metadata.ref, label(a="1"))

    with pytest.raises(Conflict):
        await world.delete(old)
    await world.delete(new)

    with pytest.raises(NotFound):
        await store.get(old.metadata.ref)


async def test_a_stream_narrows_the_selector(world: World) -> None:
    await world.create("a", team="blue", tier="1")
    await world.create("b", team="blue")
    await world.create("c", team="red", tier="1")

    names = [lease.metadata.name async for lease in world.leases("team=blue").stream("tier")]
    others = [lease.metadata.name async for lease in world.leases("").stream("!tier")]

    assert (names, others) == (["a"], ["b"])


async def test_a_watch_begins_by_saying_that_it_stands(world: World) -> None:
    listed = await world.leases("").list()

    watch = world.leases("").watch(listed.resource_version)
    async with asyncio.timeout(10), aclosing(watch) as events:
        first = await anext(events)

    assert first == Bookmark(listed.resource_version)


async def test_a_watch_tells_all_that_happened_since(world: World) -> None:
    store = world.leases("")
    version = (await store.list()).resource_version
    created = await world.create("a")
    patched = await store.patch(created.metadata.ref, label(a="1"))
    await world.delete(patched)

    first, second, third = await told(store, version, 3)

    assert (first, second) == (Changed(created), Changed(patched))
    assert isinstance(third, Removed)
    assert third.obj.metadata.label("a") == "1"
    assert int(third.obj.metadata.resource_version) > int(patched.metadata.resource_version)


async def test_what_ceases_to_match_is_removed_in_its_last_matching_state(world: World) -> None:
    blue = world.leases("team=blue")
    created = await world.create("a", team="blue")
    patched = await blue.patch(created.metadata.ref, label(team="red"))

    (event,) = await told(blue, created.metadata.resource_version, 1)

    assert isinstance(event, Removed)
    assert event.obj.metadata.label("team") == "blue"
    assert event.obj.metadata.resource_version == patched.metadata.resource_version


@pytest.mark.parametrize("selector", ["", "team=nobody"])
async def test_no_watch_waits_for_a_version_that_the_server_has_not_reached(
    world: World, selector: str
) -> None:
    seen = int((await world.create("a")).metadata.resource_version) + 10**6

    with pytest.raises(Rewound, match=str(seen)):
        await told(world.leases(selector), str(seen), 1)


async def test_a_resource_that_is_not_served_is_named(world: World) -> None:
    for missing in (GroupResource("", "gadgets"), GroupResource("no.example", "gadgets")):
        with pytest.raises(NotFound, match=str(missing)):
            await world.objects.find(missing)


async def test_objects_of_any_kind_carry_their_own_kind(world: World) -> None:
    maps = world.objects.of(await world.objects.find(CONFIG_MAPS), f"of={world.namespace}")
    body: Json = {
        "metadata": {"name": "a", "labels": {"of": world.namespace}},
        "data": {"k": "v"},
    }
    created = await maps.create(world.namespace, body)

    listed = await maps.list()
    patched = await maps.patch(created.metadata.ref, label(a="1"))
    async with asyncio.timeout(10), aclosing(maps.watch(listed.resource_version)) as events:
        watched = [await anext(events), await anext(events)]

    assert (created.api_version, created.kind) == ("v1", "ConfigMap")
    assert list(listed.items) == [created]
    assert watched[1] == Changed(patched)


async def test_the_servers_clock_is_that_of_new_objects(world: World) -> None:
    created = parse_time((await create_map(world, "a")).metadata.creation_timestamp)
    now = world.objects.server_time()

    assert created is not None
    assert now is not None
    assert abs(now - created) < timedelta(minutes=1)


async def test_a_watch_tells_only_of_what_is_asked_for(world: World) -> None:
    scopes = (
        {"namespace": world.namespace, "fields": "metadata.name!=a"},
        {"fields": "metadata.namespace!=x,metadata.name=b"},
    )
    stores = [await maps(world, **scope) for scope in scopes]
    version = (await stores[0].list()).resource_version
    await create_map(world, "a")
    created = await create_map(world, "b")

    assert [await told(store, version, 1) for store in stores] == [[Changed(created)]] * 2

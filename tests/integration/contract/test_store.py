"""What `KubeStore` and `KubeObjects` make of the answers of a real API server.

What the server itself does is in `sequences.py`.
"""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar

import pytest

from sharder.core.api.lease import Lease, LeaseSpec, lease_body
from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import Conflict, NotFound, Rewound
from sharder.core.names import GroupResource
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

    async def create(self, name: str) -> Lease:
        spec = LeaseSpec(holder_identity=name, lease_duration_seconds=15, renew_time=RENEWED)
        body = lease_body(name=name, labels={}, annotations={}, spec=spec)
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


async def test_only_the_state_that_was_seen_is_deleted(world: World) -> None:
    store = world.leases("")
    old = await world.create("a")
    new = await store.patch(old.metadata.ref, label(a="1"))

    with pytest.raises(Conflict):
        await world.delete(old)
    await world.delete(new)

    with pytest.raises(NotFound):
        await store.get(old.metadata.ref)


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


@pytest.mark.parametrize("selector", ["", "team=nobody"])
async def test_no_watch_waits_for_a_version_that_the_server_has_not_reached(
    world: World, selector: str
) -> None:
    seen = int((await world.create("a")).metadata.resource_version) + 10**6

    with pytest.raises(Rewound, match=str(seen)):
        await told(world.leases(selector), str(seen), 1)


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

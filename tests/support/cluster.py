"""A small cluster in memory for the console: rings, Leases, objects, and a cache of them."""

import random
from asyncio import TaskGroup
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import msgspec

from sharder.controllers.cache import ClusterCache
from sharder.core.api.lease import Lease, format_time
from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.api.selector import LabelSelector
from sharder.core.errors import NotFound
from sharder.core.names import (
    RING_LABEL,
    GroupResource,
    ObjectRef,
    ShardName,
)
from sharder.core.ring.snapshot import RingSnapshot
from sharder.sdk.testing.fake_clock import FakeClock, settle
from tests.support.fake_store import FakeStore
from tests.support.fakes import (
    FakeObjects,
    fake_leases,
    fake_rings,
)
from tests.support.values import CONFIGMAPS, DEMO, DRAIN, NEXT, OWNER, SECRETS, WIDGETS, ring

NAMESPACES = GroupResource("", "namespaces")

_RESOURCES = {
    WIDGETS: Resource(id=WIDGETS, version="v1", kind="Widget", namespaced=True),
    SECRETS: Resource(id=SECRETS, version="v1", kind="Secret", namespaced=True),
    CONFIGMAPS: Resource(id=CONFIGMAPS, version="v1", kind="ConfigMap", namespaced=True),
    NAMESPACES: Resource(id=NAMESPACES, version="v1", kind="Namespace", namespaced=False),
}


class Cluster:
    """Starts with the namespace `default` and the ring `demo`, and the cache not yet running."""

    def __init__(self, demo: ControllerRing | None = None) -> None:
        self.clock = FakeClock()
        self._began = self.clock.now()
        self.rng = random.Random(0)
        self.rings = fake_rings()
        self.leases = fake_leases()
        self.objects = FakeObjects(*_RESOURCES.values())
        self.objects.clock = self.server_time
        self.namespaces = self.objects.stores[NAMESPACES]
        self.cache = self.new_cache()
        self._demo = demo or ring()

    def server_time(self) -> datetime:
        """The API server's clock, which is right."""
        return self._began + timedelta(seconds=self.clock.monotonic())

    def new_cache(self) -> ClusterCache:
        """Return what a process begins with."""
        return ClusterCache(
            objects=self.objects,
            clock=self.clock,
            rng=self.rng,
            default_namespaces=LabelSelector(),
            excluded=frozenset(),
            custom={},
        )

    @asynccontextmanager
    async def watched(
        self, *shards: ShardName, since: float = 31, seconds: int = 15
    ) -> AsyncIterator[None]:
        """Let the cache follow, with the ring and these shards there, renewed a moment ago.

        Args:
            shards: Their Leases last `seconds`.
            since: For how long it has been followed: who was not there for `UNKNOWN_SILENCE`
                seconds is gone.
            seconds: The duration of the Leases.
        """
        await self.add_namespace("default")
        await self.put_ring(self._demo)
        for shard in shards:
            await self.join(shard, seconds=seconds)
        async with TaskGroup() as group:
            task = group.create_task(self.follow())
            await self.clock.advance(since)
            for shard in shards:
                await self.renew(shard)
            await self.settle()
            try:
                yield
            finally:
                task.cancel()

    async def follow(self) -> None:
        await self.cache.run(
            rings=self.rings,
            leases=self.leases.selecting(RING_LABEL),
            namespaces=self.namespaces,
        )

    @property
    def snapshot(self) -> RingSnapshot:
        now = self.cache.snapshot(DEMO)
        assert now is not None
        return now

    async def put_ring(self, of: ControllerRing) -> ControllerRing:
        """Create the ring, or give it another spec and generation."""
        metadata: Json = {"name": of.name, "generation": of.metadata.generation}
        body: Json = {"metadata": metadata, "spec": msgspec.to_builtins(of.spec)}
        try:
            return await self.rings.patch(ObjectRef("", of.name), body)
        except NotFound:
            return await self.rings.create("", body)

    async def break_ring(self, name: str = DEMO) -> None:
        """Let a later version write what we cannot read."""
        body: Json = {"spec": {"placement": {"strategy": "NotYet"}}}
        await self.rings.decoding(PartialObject).patch(ObjectRef("", name), body)

    async def add_namespace(self, name: str, **labels: str) -> None:
        await self.namespaces.create("", {"metadata": {"name": name, "labels": labels}})

    async def join(
        self, shard: ShardName, *, seconds: int = 15, of: str = DEMO, namespace: str = "default"
    ) -> Lease:
        """Let a shard take its Lease."""
        now = format_time(self.clock.now())
        return await self.leases.create(
            namespace,
            {
                "metadata": {"name": shard, "labels": {RING_LABEL: of}},
                "spec": {
                    "holderIdentity": shard,
                    "leaseDurationSeconds": seconds,
                    "acquireTime": now,
                    "renewTime": now,
                },
            },
        )

    async def renew(self, shard: ShardName) -> Lease:
        return await self.write_lease(shard, renewTime=format_time(self.clock.now()))

    async def leave(self, shard: ShardName) -> Lease:
        """Let a shard release its Lease."""
        return await self.write_lease(shard, holderIdentity="")

    async def write_lease(self, shard: ShardName, **spec: Json) -> Lease:
        return await self.leases.patch(ObjectRef("default", shard), {"spec": spec})

    async def delete_lease(self, shard: ShardName) -> None:
        meta = (await self.leases.get(ObjectRef("default", shard))).metadata
        await self.leases.delete(meta.ref, uid=meta.uid, resource_version=meta.resource_version)

    async def add(
        self,
        resource: GroupResource,
        name: str,
        *,
        owner: str | None = None,
        draining: bool = False,
        to: ShardName | None = None,
        controlled_by: PartialObject | None = None,
        namespace: str = "default",
        **labels: str,
    ) -> PartialObject:
        """Create an object as it stands after admission, with these labels, drained `to`."""
        labels |= {OWNER: owner} if owner else {}
        references: list[Json] = []
        if controlled_by is not None:
            references.append(
                {
                    "apiVersion": controlled_by.api_version,
                    "kind": controlled_by.kind,
                    "name": controlled_by.metadata.name,
                    "uid": controlled_by.metadata.uid,
                    "controller": True,
                }
            )
        body: Json = {
            "metadata": {
                "name": name,
                "generation": 1 if resource.group else 0,  # core ConfigMaps and Secrets have none
                "labels": labels | ({DRAIN: "true"} if draining else {}),
                "annotations": {NEXT: to} if to else {},
                "ownerReferences": references,
                "creationTimestamp": self.server_time().isoformat(),
            }
        }
        return await self.store(resource).create(namespace, body)

    def store(self, resource: GroupResource) -> FakeStore[PartialObject]:
        return self.objects.stores[resource]

    async def settle(self) -> None:
        """Let everything happen that needs no time, however long it takes."""
        for _ in range(20):
            await settle()

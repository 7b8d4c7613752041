"""Two shards with caches on a real API server: no child is made twice while objects move.

The test plays the sharder: it drains, and relabels children first and then their object.
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.names import GroupResource, ObjectRef, RingName, drain_label, owner_label
from sharder.kube.client import Client, connect
from sharder.kube.store import KubeStore
from sharder.kube.typed_stores import SECRETS
from sharder.sdk import LeaseTiming, Request, Settings, Shard
from tests.support.eventually import eventually
from tests.support.users import WITHIN

CONFIGMAPS = Resource(
    id=GroupResource("", "configmaps"), version="v1", kind="ConfigMap", namespaced=True
)
SHARDS = ("reads-a", "reads-b")
MOVES = 20
TIMING = LeaseTiming(lease_duration=5, renew_deadline=3.0, retry_period=1.0)


async def make_one_child(request: Request) -> None:
    """Create a child with a new name unless there is one."""
    if request.metadata.deletion_timestamp or await request.children("configmaps"):
        return
    await request.get()
    name = f"{request.ref.name}-{uuid.uuid4().hex[:8]}"
    await request.ensure({"kind": "ConfigMap", "metadata": {"name": name}})


class Ring:
    """Objects of a ring of the test's own."""

    def __init__(self, client: Client) -> None:
        self.name = RingName(f"reads-{uuid.uuid4().hex[:8]}")
        self.owner, self.drain = owner_label(self.name), drain_label(self.name)
        self.secrets = KubeStore(client, PartialObject, SECRETS, metadata_only=True)
        self.configmaps = KubeStore(client, PartialObject, CONFIGMAPS, metadata_only=True)

    async def create(self, shard: str) -> ObjectRef:
        name = f"secret-{uuid.uuid4().hex[:8]}"
        body: Json = {"metadata": {"name": name, "labels": {self.owner: shard}}}
        return (await self.secrets.create("default", body)).metadata.ref

    async def children(self, ref: ObjectRef) -> list[PartialObject]:
        found = [each async for each in self.configmaps.stream(self.owner)]
        return [each for each in found if each.metadata.name.startswith(ref.name)]

    async def children_of_each(self) -> dict[ObjectRef, int]:
        secrets = [each async for each in self.secrets.stream(self.owner)]
        refs = [each.metadata.ref for each in secrets]
        return {ref: len(await self.children(ref)) for ref in refs}

    async def has_children(self) -> bool:
        return all((await self.children_of_each()).values())

    async def label(
        self, store: KubeStore[PartialObject], ref: ObjectRef, labels: dict[str, str]
    ) -> None:
        await store.patch(ref, {"metadata": {"labels": labels}})

    async def is_released(self, ref: ObjectRef) -> bool:
        return not (await self.secrets.get(ref)).metadata.has_label(self.owner)

    async def move(self, ref: ObjectRef, to: str) -> None:
        """Drain an object and give it to another shard, children first."""
        await self.label(self.secrets, ref, {self.drain: "true"})
        await eventually(lambda: self.is_released(ref), within=WITHIN)
        for child in await self.children(ref):
            await self.label(self.configmaps, child.metadata.ref, {self.owner: to})
        await self.label(self.secrets, ref, {self.owner: to})

    @asynccontextmanager
    async def shards(self, kubeconfig: Path) -> AsyncGenerator[None]:
        """Run both shards."""
        shards: list[Shard] = []
        for name in SHARDS:
            settings = Settings(
                name=name, namespace="default", lease=TIMING, kubeconfig=str(kubeconfig)
            )
            shard = Shard(ring=self.name, settings=settings)
            shard.reconciler(
                "secrets", make_one_child, owns=["configmaps"], cache=["secrets", "configmaps"]
            )
            shards.append(shard)
        async with asyncio.TaskGroup() as group:
            for shard in shards:
                group.create_task(shard.serve())
            try:
                yield
            finally:
                for shard in shards:
                    shard.stop()


@pytest.fixture
async def ring(admin_kubeconfig: Path) -> AsyncGenerator[Ring]:
    client = await connect(str(admin_kubeconfig))
    yield Ring(client)
    await client.close()


async def test_a_child_made_right_before_a_drain_is_never_made_twice(
    ring: Ring, admin_kubeconfig: Path
) -> None:
    async with ring.shards(admin_kubeconfig):
        for number in range(MOVES):
            here, there = SHARDS[:: 1 if number % 2 else -1]
            ref = await ring.create(here)
            await asyncio.sleep(number / 1000)
            await ring.move(ref, there)
            await ring.label(ring.secrets, ref, {"changed": "yes"})
            await ring.move(ref, here)
        await eventually(ring.has_children, within=WITHIN)
        await asyncio.sleep(1)

    counts = await ring.children_of_each()
    assert len(counts) == MOVES
    assert set(counts.values()) == {1}

"""Four shards whose use of cpu and memory is uneven on two of them."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

from hack.ownership import SECRETS
from hack.playground import Playground
from sharder.core.api.meta import Json
from sharder.core.names import LOAD_ANNOTATION, RingName, owner_label, pin_label
from sharder.kube.client import JSON, MERGE_PATCH, Client, connect
from sharder.kube.objects import KubeObjects
from tests.e2e.own_ring import OwnRing, own_ring

CPU, MEMORY = 100_000, 100_000
"""Capacity of each shard: thousandths of cores, and megabytes."""
Loads: TypeAlias = Sequence[Sequence[tuple[int, int]]]
"""By shard, of each of its Secrets: thousandths of cores, and megabytes."""
_EVEN = [(1000, 1000)] * 50
LIGHT: Loads = ([(1400, 600)] * 50, [(600, 1400)] * 50, _EVEN, _EVEN)
"""0.7 beside 0.3 of a shard's capacity, which is a fragmentation of 0.2; 0.3 beside 0.7; and twice
0.5 beside 0.5.  No Secret matters much: without one of the first shard it is 0.196."""
HEAVY: Loads = (
    [(4000, 0)] * 10 + [(750, 750)] * 40,
    [(0, 4000)] * 10 + [(750, 750)] * 40,
    _EVEN,
    _EVEN,
)
"""The same, but for a few Secrets that make all the difference: without one it is 0.18."""
AT_ONCE = 25
_Request: TypeAlias = tuple[str, str, Json]
"""Method, path and body."""
_LOAD = re.compile(r"cpu=(\d+)m,memory=(\d+)M")


@dataclass(frozen=True, slots=True)
class Laden:
    """The ring, its Secrets and what the test reads of them."""

    ring: OwnRing
    shards: tuple[str, ...]
    client: Client

    async def fill(self, loads: Loads) -> None:
        """Create the Secrets, pinned; take the pins off when each is where it is to be."""
        pin, pinned = pin_label(RingName(self.ring.name)), dict[str, str]()
        path = f"/api/v1/namespaces/{self.ring.name}/secrets"
        creates, unpins = list[_Request](), list[_Request]()
        unpinned: Json = {"metadata": {"labels": {pin: None}}}
        for shard, of_shard in zip(self.shards, loads, strict=True):
            for number, (cpu, memory) in enumerate(of_shard):
                name = f"{shard}-{number:02}"
                pinned[name] = shard
                annotations: Json = {LOAD_ANNOTATION: f"cpu={cpu}m,memory={memory}M"}
                metadata: Json = {"name": name, "labels": {pin: shard}, "annotations": annotations}
                creates.append(("POST", path, {"metadata": metadata}))
                unpins.append(("PATCH", f"{path}/{name}", unpinned))
        await self._send(creates)
        await self.ring.until(lambda h: h.owners() == pinned)
        await self._send(unpins)
        await self.ring.until_worked_on()

    async def fragmentations(self) -> dict[str, float]:
        """Work out each shard's fragmentation from what the API server has."""
        loads = {shard: [0, 0] for shard in self.shards}
        objects, label = KubeObjects(self.client), owner_label(RingName(self.ring.name))
        store = objects.of(await objects.find(SECRETS), namespace=self.ring.name)
        async for obj in store.stream():
            said = _LOAD.fullmatch(obj.metadata.annotation(LOAD_ANNOTATION))
            assert said is not None, obj.metadata.name
            of_shard = loads[obj.metadata.label(label)]
            for index, amount in enumerate(said.groups()):
                of_shard[index] += int(amount)
        return {shard: abs(c / CPU - m / MEMORY) / 2 for shard, (c, m) in loads.items()}

    async def _send(self, requests: list[_Request]) -> None:
        waiting = iter(requests)

        async def work() -> None:
            for method, path, body in waiting:
                content_type = JSON if method == "POST" else MERGE_PATCH
                await self.client.request(method, path, body=body, content_type=content_type)

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work())


@asynccontextmanager
async def laden(
    playground: Playground, name: str, loads: Loads, *, controlled: bool = True
) -> AsyncIterator[Laden]:
    """Set such a ring up; nothing is done about its balance yet.

    Unless `controlled`, the checksums belong to no shard, so that no Secret waits for its own.
    """
    shards = tuple(f"{name}-{letter}" for letter in "abcd")
    client = await connect(str(playground.author))
    try:
        async with own_ring(
            playground,
            name,
            *shards,
            # Draws by the number of objects, which is the same everywhere, and moves nothing.
            placement={"strategy": "LeastLoaded"},
            SHARD_CAPACITY=f"cpu={CPU}m,memory={MEMORY}M",
        ) as ring:
            if not controlled:
                alone: Json = [{"group": "", "resource": "secrets"}]
                await ring.change(resources=alone)
            found = Laden(ring, shards, client)
            await found.fill(loads)
            yield found
    finally:
        await client.close()

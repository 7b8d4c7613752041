"""The cost of a sharder without work: its start, its memory, its CPU time."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Final

from hack.bench import scene
from hack.bench.process import Meter, cpu_seconds, resident
from hack.bench.row import Goal, Limit, Row, Sample, Scale, Values
from hack.bench.scene import Scene
from sharder.core.api.lease import format_time

RING: Final = "bench"
READY, MEMORY, IDLE = "to ready, s", "resident, MB", "of a core, %"
CASE: Final = "the sharder"
SETTLE_SECONDS: Final = 12.0
"""Seconds after which freed memory has been returned; see `sharder.runtime.memory`."""
RENEWED_EVERY: Final = 2.0
"""Seconds between two renewals of a Lease."""


async def starts(scale: Scale) -> AsyncIterator[Sample]:
    """Start a sharder in clusters with few and with many Leases of shards."""
    async with scene.started() as cluster:
        await cluster.add_ring(RING, shards=0)
        await cluster.stop_sharder()
        existing = 0
        for leases in scale.sizes(1, 1_000):
            await cluster.add_shards(RING, leases - existing, first=existing)
            existing = leases
            for _ in range(scale.of(5, 1)):
                yield Sample(CASE, leases, await ready(cluster, scale))


async def ready(cluster: Scene, scale: Scale) -> Values:
    """Start and stop the sharder; return the values of its start."""
    began = asyncio.get_running_loop().time()
    await cluster.start_sharder()
    seconds = asyncio.get_running_loop().time() - began
    pid = cluster.pids["sharder"]
    spent = cpu_seconds(pid)
    await asyncio.sleep(scale.of(SETTLE_SECONDS, 0.0))
    memory = resident(pid)
    await cluster.stop_sharder()
    return {READY: seconds, "CPU, s": spent, MEMORY: memory}


async def idles(scale: Scale) -> AsyncIterator[Sample]:
    """Measure a sharder while shards renew their Leases, and nothing else happens."""
    async with scene.started() as cluster:
        await cluster.add_ring(RING, shards=0)
        existing = 0
        for shards in scale.sizes(10, 100):
            await cluster.add_shards(RING, shards - existing, first=existing)
            existing = shards
            await asyncio.sleep(scale.of(SETTLE_SECONDS, 0.0))
            for _ in range(scale.of(3, 1)):
                yield Sample(CASE, shards, await renewed(cluster, shards, scale.of(10, 1)))


async def renewed(cluster: Scene, shards: int, seconds: int) -> Values:
    """Renew all Leases for `seconds`, and return the used cores."""
    meter, began = Meter(cluster.pids), asyncio.get_running_loop().time()
    path = f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{RING}-shard-"
    for _ in range(max(1, round(seconds / RENEWED_EVERY))):
        renewal = {"spec": {"renewTime": format_time(datetime.now(UTC))}}
        await cluster.send(
            path + "{n}",
            [json.dumps(renewal)],
            shards,
            method="PATCH",
            rate=shards / RENEWED_EVERY,
        )
    took = asyncio.get_running_loop().time() - began
    shares = {f"{name}, %": 100 * each / took for name, each in meter.seconds().items()}
    return {IDLE: shares.pop("sharder, %"), **shares}


ROWS: Final = (
    Row(
        name="start",
        what="From the start of the process until it is ready, with so many Leases of shards, and "
        f"its memory {SETTLE_SECONDS:g} s later.",
        samples=starts,
        goals=[
            Goal(case=CASE, size=1, column=READY, limit=Limit(2.0)),
            Goal(case=CASE, size=1_000, column=READY, limit=Limit(2.5)),
            Goal(case=CASE, size=1, column=MEMORY, limit=Limit(100)),
        ],
    ),
    Row(
        name="idle",
        what="A sharder whose shards, so many, renew their Leases every "
        f"{RENEWED_EVERY:g} seconds, while nothing else happens.",
        samples=idles,
        goals=[Goal(case=CASE, size=100, column=IDLE, limit=Limit(2.0))],
    ),
)

"""The cost of many objects for a sharder that does not count them: memory, and passes."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Final

from hack.bench import load, scene
from hack.bench.load import Job, Load
from hack.bench.process import Meter, resident
from hack.bench.row import Goal, Limit, Row, Sample, Scale, Values
from hack.bench.scene import SHARDER, Scene
from hack.bench.secrets_ring import request
from sharder.core.names import WEBHOOK_PATH_PREFIX, owner_label
from sharder.core.names import RingName as Name

RING: Final = "bench"
MEMORY, RATE, PERIOD = "resident, MB", "objects per second", "of a core by default, %"
IDLE, BUSY = "p99 idle, ms", "p99 in a resync, ms"
CASE: Final = "ConsistentHash"
OFFERED: Final = 500.0
"""Reviews per second."""
DEFAULT_PERIOD: Final = 300.0
"""Seconds between two passes over a ring in which nothing changes."""
SETTLE_SECONDS: Final = 12.0
"""Seconds after which freed memory has been returned; see `sharder.runtime.memory`."""


async def samples(scale: Scale) -> AsyncIterator[Sample]:
    """Add objects, then measure the sharder after it has seen all of them."""
    existing = 0
    async with scene.started() as cluster, load.started() as reviewer:
        await cluster.add_ring(RING, shards=1)
        for objects in scale.of((1, 10_000, 100_000), (1, 200)):
            # The objects have their owner before the ring selects the namespace, so that no
            # webhook is called.
            space, owner = f"objects-{objects}", {owner_label(Name(RING)): f"{RING}-shard-0"}
            await cluster.add_namespace(space)
            await cluster.create(space, objects - existing, labels=owner)
            await cluster.add_namespace(space, RING)
            existing = objects
            await asyncio.sleep(scale.of(SETTLE_SECONDS, 0.0))
            memory = resident(cluster.pids["sharder"])
            for number in range(scale.of(3, 1)):
                resync = await passed_over(cluster, reviewer, objects, number)
                yield Sample(CASE, objects, {MEMORY: memory, **resync})


async def passed_over(cluster: Scene, reviewer: Load, objects: int, number: int) -> Values:
    """Measure a pass of the leader over all objects that changes nothing."""
    if objects == 1:
        return {}
    name = "controller_sharding_resync_duration_seconds"
    sums, passes = (cluster.metric(f"{name}_{part}", RING) for part in ("sum", "count"))
    idle = await reviewer.send(reviews(cluster, 1_000))
    async with asyncio.TaskGroup() as group:
        meter = Meter({"sharder": cluster.pids["sharder"]})
        await change(cluster, objects + number)
        busy = group.create_task(reviewer.send(reviews(cluster, 1_000)))
        await cluster.until(lambda: cluster.metric(f"{name}_count", RING) > passes)
    seconds = cluster.metric(f"{name}_sum", RING) - sums
    ended = cluster.metric(f"{name}_count", RING) - passes
    each = meter.per(round(objects * ended))["sharder CPU, µs"]
    return {
        RATE: objects * ended / seconds,
        "sharder CPU, µs": each,
        PERIOD: each / 1e6 * objects / DEFAULT_PERIOD * 100,
        IDLE: idle.p99 * 1e3,
        BUSY: busy.result().p99 * 1e3,
    }


async def change(cluster: Scene, number: int) -> None:
    """Change the ring, so that the leader checks all its objects again."""
    spec = {"spec": {"movement": {"drainTimeout": f"{number + 1}s"}}}
    change = ("patch", "controllerrings", RING, "--type=merge", f"--patch={json.dumps(spec)}")
    await asyncio.to_thread(cluster.plane.kubectl, *change)


def reviews(cluster: Scene, number: int) -> Job:
    """Return reviews for the webhook's port; without its token they change nothing."""
    return Job(
        url=f"https://127.0.0.1:{cluster.playground.webhook_port(SHARDER)}",
        connections=16,
        path=f"{WEBHOOK_PATH_PREFIX}{RING}",
        bodies=[request("new-{n}", 0)],
        requests=number,
        rate=OFFERED,
        expect='"patch"',
    )


ROW: Final = Row(
    name="objects",
    what="A sharder and a ring of ConsistentHash with so many objects: its memory, and passes "
    f"over all of them that change nothing, while {OFFERED:g} reviews a second are offered.",
    samples=samples,
    goals=[
        Goal(case=CASE, size=100_000, column=RATE, limit=Limit(40_000, at_least=True)),
        Goal(case=CASE, size=100_000, column=PERIOD, limit=Limit(20)),
        Goal(case=CASE, size=100_000, column=MEMORY, limit=Limit(1.05), over=CASE, over_size=1),
    ],
)

"""How fast the leader assigns objects, compared with the same writes alone."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Final

from hack.bench import scene
from hack.bench.process import Meter
from hack.bench.row import Goal, Limit, Row, Sample, Scale, Values
from hack.bench.scene import Scene
from sharder.core.api.meta import Json
from sharder.core.movement.release import UNSEEN_SECONDS
from sharder.core.names import GroupResource, owner_label
from sharder.core.names import RingName as Name
from sharder.kube.client import connect
from sharder.kube.objects import KubeObjects
from sharder.runtime.task_pool import batch

RAW, ASSIGNMENT, TAKEOVER = "raw PATCH", "first assignment", "takeover"
RATE, CPU = "per second", "writer CPU, µs"

AT_ONCE: Final = 100
"""Concurrent writes, as by the default of concurrentMoves."""


async def samples(scale: Scale) -> AsyncIterator[Sample]:
    """Patch the Secrets of one namespace; assign, then take over the Secrets of another."""
    objects = scale.of(8_000, 100)
    async with scene.started() as cluster:
        for number in range(scale.of(3, 1)):
            raw, ring = f"raw-{number}", f"ring-{number}"
            await cluster.add_namespace(raw)
            await cluster.create(raw, objects)
            yield Sample(RAW, 0, await patched(cluster, raw, objects))
            await cluster.add_namespace(ring, ring)
            await cluster.create(ring, objects)
            await cluster.add_ring(ring, shards=0)
            await asyncio.sleep(UNSEEN_SECONDS)  # a first shard takes longer to start
            yield Sample(ASSIGNMENT, 0, await assigned(cluster, ring, objects))
            yield Sample(TAKEOVER, 0, await taken_over(cluster, ring, objects))
            await asyncio.to_thread(cluster.plane.kubectl, "delete", "controllerrings", ring)


async def patched(cluster: Scene, namespace: str, objects: int) -> Values:
    """Add a label to every Secret with the sharder's client, guarded by what was read."""
    client = await connect(str(cluster.playground.kubeconfig_of("sharder")))
    try:
        known = KubeObjects(client)
        secrets = await known.find(GroupResource("", "secrets"))
        store = known.of(secrets, namespace=namespace)
        labels: Json = {owner_label(Name("raw")): "raw-shard-0"}
        listed = [obj async for obj in store.stream()]
        began = asyncio.get_running_loop().time()
        meter = Meter({**cluster.pids, "sharder": os.getpid()})
        async with batch(AT_ONCE) as writes:
            for obj in listed:
                version = obj.metadata.resource_version
                body: Json = {"metadata": {"resourceVersion": version, "labels": labels}}
                await writes.add(store.patch(obj.metadata.ref, body))
        return values(meter, objects, asyncio.get_running_loop().time() - began)
    finally:
        await client.close()


async def assigned(cluster: Scene, ring: str, objects: int) -> Values:
    """Let a first shard join a ring with objects, and wait until it owns all of them."""
    began = asyncio.get_running_loop().time()
    meter = Meter(cluster.pids)
    await cluster.add_shards(ring, 1)
    await until_all_on(cluster, ring, objects, f"{ring}-shard-0")
    return values(meter, objects, asyncio.get_running_loop().time() - began)


async def taken_over(cluster: Scene, ring: str, objects: int) -> Values:
    """Let the shard leave, then another one join, and wait until this one owns all objects."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{ring}-shard-0"
    await cluster.send(path, ['{"spec":{"holderIdentity":""}}'], 1, method="PATCH")
    noted = b'"alpha.sharding.timebertt.dev/state":"dead"'
    await cluster.until(lambda: noted in cluster.get(path))
    began = asyncio.get_running_loop().time()
    meter = Meter(cluster.pids)
    await cluster.add_shards(ring, 1, first=1)
    await until_all_on(cluster, ring, objects, f"{ring}-shard-1")
    return values(meter, objects, asyncio.get_running_loop().time() - began)


async def until_all_on(cluster: Scene, ring: str, objects: int, shard: str) -> None:
    """Return when a shard owns all objects.

    At first only the object is read that is listed last: the API server reads all of them for an
    answer about all, and would have less time for what is measured.
    """
    last = max(f"secret-{number}" for number in range(objects))
    path = f"/api/v1/namespaces/{ring}/secrets/{last}"
    owned = f'"{owner_label(Name(ring))}":"{shard}"'.encode()
    await cluster.until(lambda: owned in cluster.get(path))
    await cluster.until(lambda: not cluster.has_any(ring, f"{owner_label(Name(ring))}!={shard}"))


def values(meter: Meter, objects: int, seconds: float) -> Values:
    """Return the columns; the writer is the meter's process `sharder`, also for raw writes."""
    spent = meter.per(objects)
    return {RATE: objects / seconds, CPU: spent.pop("sharder CPU, µs"), **spent}


ROW: Final = Row(
    name="moves",
    what="Objects that the leader writes, 100 at a time: Secrets without owner that get their "
    "first, and those of a shard that has left; beside guarded merge patches of the same client.",
    samples=samples,
    base=RAW,
    goals=[
        goal
        for case in (ASSIGNMENT, TAKEOVER)
        for goal in (
            Goal(case=case, column=RATE, limit=Limit(0.9, at_least=True), over=RAW),
            Goal(case=case, column=CPU, limit=Limit(450)),
        )
    ],
)

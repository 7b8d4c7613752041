"""A shard that is always at work on all of its objects; with `--careless` it breaks the protocol.

Run it as `python -m tests.e2e.slow_shard`.  It logs as the example does.
"""

import asyncio
import logging
import random
import runpy
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

from typing_extensions import override

from hack.ownership import DRAIN, OWNER
from hack.playground import EXAMPLE, RING
from sharder.core.api.meta import Json, Resource
from sharder.core.errors import Conflict
from sharder.core.movement.patches import acknowledge
from sharder.core.names import ObjectRef
from sharder.kube.client import connect
from sharder.ports import Changed, Listed, Removed, WatchEvent
from sharder.runtime.clock import SystemClock
from sharder.sdk import Request, Shard, local_settings
from sharder.sdk.cluster import KubeCluster
from sharder.sdk.reads.collection import OwnObjects
from sharder.sdk.reads.objects import OwnObject

WORK_SECONDS: Final = 0.5


async def reconcile(_: Request) -> timedelta:
    """Work, and again at once."""
    await asyncio.sleep(WORK_SECONDS)
    return timedelta(0)


class CarelessObjects:
    """Lets objects go behind the back of the one who works on them, and hides that they go."""

    def __init__(self, objects: OwnObjects) -> None:
        self._objects = objects

    async def list(self, keep: Callable[[OwnObject], bool] | None = None) -> Listed[OwnObject]:
        return await self._objects.list(keep)

    async def watch(self, resource_version: str) -> AsyncIterator[WatchEvent[OwnObject]]:
        async for event in self._objects.watch(resource_version):
            match event:
                case Changed(obj) if obj.metadata.has_label(DRAIN):
                    patch = acknowledge(obj.metadata, owner_label=OWNER, drain_label=DRAIN)
                    with suppress(Conflict):  # then it comes once more
                        await self._objects.patch(obj.metadata.ref, patch)
                case Removed():
                    pass
                case _:
                    yield event

    async def patch(self, ref: ObjectRef, body: Json) -> OwnObject:
        return await self._objects.patch(ref, body)


class CarelessCluster(KubeCluster):
    """The cluster as a shard sees it that ignores drains and that its objects are gone."""

    @override
    def objects(self, resource: Resource, labels: str) -> OwnObjects:
        return CarelessObjects(super().objects(resource, labels))


async def main(*, careless: bool) -> None:
    """Work until SIGTERM."""
    settings = local_settings()
    shard = Shard(ring=RING, settings=settings)
    shard.reconciler("secrets", reconcile)
    client = await connect(settings.kubeconfig)
    cluster = CarelessCluster(client) if careless else KubeCluster(client)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, shard.stop)
    try:
        await shard.serve_on(cluster, clock=SystemClock(), rng=random.Random())
    finally:
        await client.close()


if __name__ == "__main__":
    handler = logging.StreamHandler()
    handler.setFormatter(runpy.run_path(str(EXAMPLE / "controller.py"))["JsonLines"]())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    asyncio.run(main(careless="--careless" in sys.argv))

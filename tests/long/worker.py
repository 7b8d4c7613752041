"""A process that is one shard in each of several rings: `python -m tests.long.worker RING...`.

With `--children` it keeps one ConfigMap for each Secret, with a name that only its cache knows,
and writes into it who it is.  It logs its work as the example controller does.
"""

import argparse
import asyncio
import logging
import random
import runpy
import secrets
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace

from hack.playground import EXAMPLE
from sharder.core.api.meta import Json, PartialObject
from sharder.sdk import Request, Shard, local_settings

WRITER = "writer"
"""Key of the data of a child: the shard that wrote it."""


async def idle(_: Request) -> None:
    """Do nothing: what is owned is looked at."""


def child_writer(shard: str, seconds: float) -> Callable[[Request], Awaitable[None]]:
    """Return what works on a Secret for up to so long, and then writes its child.

    What it knows of the child is from before the work, as it often is.
    """

    async def reconcile(request: Request) -> None:
        if request.metadata.deletion_timestamp:
            return
        known = await request.children("configmaps", PartialObject)
        await asyncio.sleep(random.uniform(0, seconds))
        new = f"{request.ref.name}-{secrets.token_hex(4)}"
        body: dict[str, Json] = {
            "kind": "ConfigMap",
            "metadata": {"name": known[0].metadata.name if known else new},
            "data": {WRITER: shard},
        }
        await request.ensure(body, replace=["data"])

    return reconcile


async def main() -> None:
    """Work until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ring", nargs="+")
    parser.add_argument("--children", action="store_true")
    parser.add_argument("--work", type=float, default=0.0, help="most seconds of a reconcile")
    arguments = parser.parse_args()
    settings = local_settings()
    shards: list[Shard] = []
    for ring in arguments.ring:
        name = shard_of(ring, settings.name)
        shard = Shard(ring=ring, settings=replace(settings, name=name))
        if arguments.children:
            writer = child_writer(name, arguments.work)
            shard.reconciler("secrets", writer, owns=["configmaps"], cache=["configmaps"])
        else:
            shard.reconciler("secrets", idle)
        shards.append(shard)

    def stop() -> None:
        for shard in shards:
            shard.stop()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    async with asyncio.TaskGroup() as group:
        for shard in shards:
            group.create_task(shard.serve())


def shard_of(ring: str, process: str) -> str:
    """Return the name under which a process is a shard of a ring."""
    return f"{ring}-{process}"


if __name__ == "__main__":
    handler = logging.StreamHandler()
    handler.setFormatter(runpy.run_path(str(EXAMPLE / "controller.py"))["JsonLines"]())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    asyncio.run(main())

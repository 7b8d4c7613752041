"""The checksum-controller with a fault: it does not notice that its shard has lost the Lease.

A thread of it notes on its ConfigMaps when they were last checked.  It lists them some time
before it writes them, and never looks again.  Controllers in any language do that, in threads, in
helpers, in requests that are under way; only the API server can stop such a write.
"""

import asyncio
import runpy
import threading
import time
from collections import deque
from typing import Final

from hack.ownership import CONFIGMAPS, OWNER
from hack.playground import EXAMPLE
from sharder.core.api.meta import Json
from sharder.core.errors import ApiError
from sharder.core.names import ObjectRef
from sharder.kube.client import connect
from sharder.kube.objects import KubeObjects
from sharder.sdk import local_settings

CHECKED: Final = "example.com/checked"
PENDING: Final = 20
"""With fewer ConfigMaps left to write it lists the next ones: some are always left."""
PAUSE_SECONDS: Final = 0.05
LATE_SECONDS: Final = 1.0
"""How long it writes on when the shard has ended; a shard on the reference's library: 10 s."""


async def note(kubeconfig: str, shard: str) -> None:
    """Write one ConfigMap of the shard after the other, for ever."""
    objects = KubeObjects(await connect(kubeconfig))
    resource = await objects.find(CONFIGMAPS)
    own, any_owner = objects.of(resource, f"{OWNER}={shard}"), objects.of(resource)
    pending = deque[ObjectRef]()
    while True:
        if len(pending) < PENDING:
            pending.extend([obj.metadata.ref async for obj in own.stream()])
        if pending:
            noted: Json = {"metadata": {"annotations": {CHECKED: str(time.time())}}}
            try:
                await any_owner.patch(pending.popleft(), noted)
            except ApiError as error:
                print(error, flush=True)
        await asyncio.sleep(PAUSE_SECONDS)


def main() -> None:
    """Run the controller, and write on for a while after it has ended."""
    settings = local_settings()
    kubeconfig, shard = settings.kubeconfig or "", settings.name
    threading.Thread(target=lambda: asyncio.run(note(kubeconfig, shard)), daemon=True).start()
    try:
        runpy.run_path(str(EXAMPLE / "controller.py"))["main"]()
    finally:
        time.sleep(LATE_SECONDS)


if __name__ == "__main__":
    main()

"""The checksum-controller with a fault: a thread does not notice that the shard lost its Lease.

The thread annotates each ConfigMap of the shard with the time of its last check.  It lists the
ConfigMaps some time before it writes to them, and does not check the owner again.
Controllers in any language do the same, in threads, in helpers and in requests that are under
way; only the API server can stop such a write.
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
"""The thread lists the ConfigMaps again as soon as fewer than this number are left to write."""
PAUSE_SECONDS: Final = 0.05
LATE_SECONDS: Final = 1.0
"""How long the thread writes after the end of the shard.

10 s are possible for a shard on the Go library of the reference implementation.
"""


async def note(kubeconfig: str, shard: str) -> None:
    """Write to the ConfigMaps of the shard, one after the other, forever."""
    objects = KubeObjects(await connect(kubeconfig))
    resource = await objects.find(CONFIGMAPS)
    own, any_owner = objects.of(resource, f"{OWNER}={shard}"), objects.of(resource)
    pending = deque[ObjectRef]()
    while True:
        if len(pending) < PENDING:
            pending.extend([obj.metadata.ref async for obj in own.stream()])
        if pending:
            patch: Json = {"metadata": {"annotations": {CHECKED: str(time.time())}}}
            try:
                await any_owner.patch(pending.popleft(), patch)
            except ApiError as error:
                print(error, flush=True)
        await asyncio.sleep(PAUSE_SECONDS)


def main() -> None:
    """Run the controller; keep the thread writing for LATE_SECONDS after the controller ends."""
    settings = local_settings()
    kubeconfig, shard = settings.kubeconfig or "", settings.name
    threading.Thread(target=lambda: asyncio.run(note(kubeconfig, shard)), daemon=True).start()
    try:
        runpy.run_path(str(EXAMPLE / "controller.py"))["main"]()
    finally:
        time.sleep(LATE_SECONDS)


if __name__ == "__main__":
    main()

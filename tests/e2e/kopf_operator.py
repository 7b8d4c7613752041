"""An operator on kopf that does what the annotations of Secrets say, and logs as the example.

`seconds`: how long a handler works, in a thread or, with the annotation `awaits`, in a coroutine.
Run it by `kopf run`.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import kopf
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

import sharder.kopf
from hack.playground import NAMESPACE, RING

SHARD = os.environ["SHARD_NAME"]

config.load_config()  # type: ignore[no-untyped-call]  # not annotated
core = client.CoreV1Api()

sharder.kopf.join(ring=RING, resources=["secrets"])


@contextmanager
def at_work(name: str, what: str) -> Iterator[None]:
    """Log the begin and the end of what is done on a Secret."""
    fields = {
        "process": os.getpid(),
        "ring": RING,
        "shard": SHARD,
        "resource": what,
        "object": name,
    }
    log("reconcile started", fields)
    try:
        yield
    finally:
        log("reconcile ended", fields)


def log(message: str, fields: dict[str, object]) -> None:
    line = json.dumps({"message": message, "monotonic": time.monotonic(), **fields})
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@kopf.on.create("secrets", annotations={"awaits": kopf.ABSENT})
@kopf.on.update("secrets", annotations={"awaits": kopf.ABSENT})
@kopf.on.resume("secrets", annotations={"awaits": kopf.ABSENT})
def work(name: str, annotations: kopf.Annotations, **_: object) -> None:
    with at_work(name, "secrets"):
        time.sleep(float(annotations.get("seconds", 0)))
        if "seconds" in annotations:
            metadata = client.V1ObjectMeta(name=f"{name}-done")
            create(client.V1ConfigMap(metadata=metadata, data={"by": SHARD}))


def create(child: client.V1ConfigMap) -> None:
    kopf.adopt(child)
    try:
        core.create_namespaced_config_map(NAMESPACE, child)
    except ApiException as error:
        if error.status != 409:
            raise


@kopf.on.create("secrets", annotations={"awaits": kopf.PRESENT})
@kopf.on.update("secrets", annotations={"awaits": kopf.PRESENT})
@kopf.on.resume("secrets", annotations={"awaits": kopf.PRESENT})
async def wait(name: str, annotations: kopf.Annotations, **_: object) -> None:
    with at_work(name, "secrets"):
        await asyncio.sleep(float(annotations["seconds"]))


@kopf.on.delete("secrets", annotations={"guarded": kopf.PRESENT})
def clean_up(name: str, **_: object) -> None:
    with at_work(name, "deletions"):
        pass


@kopf.daemon("secrets", annotations={"daemon": kopf.PRESENT})
def attend(name: str, stopped: kopf.DaemonStopped, **_: object) -> None:
    with at_work(name, "daemons"):
        while not stopped:
            time.sleep(0.1)
        time.sleep(1)


@kopf.timer("secrets", annotations={"timer": kopf.PRESENT}, interval=0.2)
async def tick(name: str, **_: object) -> None:
    with at_work(name, "timers"):
        await asyncio.sleep(0.1)

"""For each Secret, keep a ConfigMap that lists its keys.

Run it with `kopf run --all-namespaces controller.py`.
"""

import asyncio
import os

import kopf
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from shard_lease import ShardLease

RING, SHARD, NAMESPACE = "my-ring", os.environ["POD_NAME"], os.environ["POD_NAMESPACE"]
OWNER = f"shard.alpha.sharding.timebertt.dev/{RING}"
DRAIN = f"drain.alpha.sharding.timebertt.dev/{RING}"

config.load_config()
core = client.CoreV1Api()
lease = ShardLease(ring=RING, shard=SHARD, namespace=NAMESPACE)


@kopf.on.startup()
async def join(settings: kopf.OperatorSettings, **_: object) -> None:
    settings.watching.label_selectors["secrets"] = f"{OWNER}={SHARD}"
    settings.queueing.exit_timeout = 20  # longer than any handler takes
    settings.posting.enabled = False
    await asyncio.to_thread(lease.acquire)


@kopf.on.cleanup()
async def leave(**_: object) -> None:
    await asyncio.to_thread(lease.release)


@kopf.on.event("secrets", labels={DRAIN: kopf.PRESENT})
async def acknowledge(patch: kopf.Patch, **_: object) -> None:
    patch.fns.append(remove_labels)


def remove_labels(body: dict) -> None:
    body["metadata"]["labels"].pop(OWNER, None)
    body["metadata"]["labels"].pop(DRAIN, None)


@kopf.on.create("secrets", labels={DRAIN: kopf.ABSENT})
@kopf.on.update("secrets", labels={DRAIN: kopf.ABSENT})
@kopf.on.resume("secrets", labels={DRAIN: kopf.ABSENT})
async def list_keys(name: str, namespace: str, body: kopf.Body, **_: object) -> None:
    child = {
        "metadata": {"name": f"{name}-keys", "namespace": namespace, "labels": {OWNER: SHARD}},
        "data": dict.fromkeys(body.get("data") or {}, "present"),
    }
    kopf.append_owner_reference(child, owner=body)
    await asyncio.to_thread(apply, child)


def apply(child: dict) -> None:
    name, namespace = child["metadata"]["name"], child["metadata"]["namespace"]
    try:
        core.create_namespaced_config_map(namespace, child)
    except ApiException as error:
        if error.status != 409:
            raise
        core.patch_namespaced_config_map(name, namespace, {"data": child["data"]})

"""The cost of the fence: the time of a patch, one after the other, on an idle API server.

    python -m hack.measure_fence [PATCHES]

The fence is applied and removed in turn, so that other work on the machine affects both equally.
"""

import asyncio
import statistics
import sys
import time
from typing import Final

import yaml

from hack.control_plane import ControlPlane
from sharder.core.api.meta import Json, ObjectMeta
from sharder.core.api.ring import ControlledResource, ControllerRing, RingResource, RingSpec
from sharder.core.errors import Rejected
from sharder.core.fence.policy import fence_of
from sharder.core.names import ObjectRef, RingName, owner_label
from sharder.kube.client import MERGE_PATCH, Client, connect

RING: Final = RingName("measured")
NAMESPACE, SHARD = "default", "shard-a"
ACCOUNTS: Final = {"shards": SHARD, "others": "another"}
"""The account that the fence checks and an account that it ignores, each with its pod."""
TURNS: Final = 5
WARM_UP: Final = 50
PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"

RIGHTS: Final = f"""
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: everything}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}
subjects:
  - {{kind: ServiceAccount, namespace: {NAMESPACE}, name: shards}}
  - {{kind: ServiceAccount, namespace: {NAMESPACE}, name: others}}
"""


def _fence() -> str:
    maps = (ControlledResource(resource="configmaps"),)
    spec = RingSpec(resources=(RingResource(resource="secrets", controlled_resources=maps),))
    ring = ControllerRing(metadata=ObjectMeta(name=RING), spec=spec)
    return yaml.safe_dump_all(fence_of(ring, [ObjectRef(NAMESPACE, "shards")]))


async def _create(client: Client, name: str, owner: str) -> None:
    labels: Json = {owner_label(RING): owner}
    await client.request("POST", PATH, body={"metadata": {"name": name, "labels": labels}})


async def _patch(client: Client, name: str, number: int) -> float:
    """Patch a ConfigMap; return the milliseconds that it took."""
    begin = time.perf_counter()
    body: Json = {"data": {"n": str(number)}}
    await client.request("PATCH", f"{PATH}/{name}", body=body, content_type=MERGE_PATCH)
    return (time.perf_counter() - begin) * 1000


async def _until(client: Client, *, fenced: bool) -> None:
    """Wait until the API server enforces the fence, or until it no longer does."""
    for number in range(10_000):
        try:
            await _patch(client, "foreign", number)
            refused = False
        except Rejected:
            refused = True
        if refused is fenced:
            return
        await asyncio.sleep(0.05)
    raise TimeoutError


async def _measure(plane: ControlPlane, patches: int) -> dict[tuple[str, bool], list[float]]:
    clients = {
        name: await connect(str(plane.token_kubeconfig(NAMESPACE, name, pod=pod)))
        for name, pod in ACCOUNTS.items()
    }
    await _create(clients["others"], "own", SHARD)
    await _create(clients["others"], "foreign", "another")
    times: dict[tuple[str, bool], list[float]] = {}
    for turn in range(TURNS * 2):
        fenced = turn % 2 == 1
        if fenced:
            plane.apply(_fence())
        else:
            plane.kubectl("delete", "-f", "-", "--ignore-not-found", stdin=_fence())
        await _until(clients["shards"], fenced=fenced)
        for number in range(WARM_UP + patches // TURNS):
            for name, client in clients.items():
                took = await _patch(client, "own", number)
                if number >= WARM_UP:
                    times.setdefault((name, fenced), []).append(took)
    for client in clients.values():
        await client.close()
    return times


def main() -> None:
    """Measure, and print the table."""
    patches = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    with ControlPlane() as plane:
        for account in (*ACCOUNTS, "default"):
            plane.apply(
                f"{{apiVersion: v1, kind: ServiceAccount, metadata: "
                f"{{name: {account}, namespace: {NAMESPACE}}}}}"
            )
        plane.apply(RIGHTS)
        times = asyncio.run(_measure(plane, patches))
    print(f"{'account':10}{'fence':10}{'p50 ms':>8}{'p99 ms':>8}{'n':>8}")
    for (account, fenced), taken in sorted(times.items()):
        p50, p99 = statistics.median(taken), statistics.quantiles(taken, n=100)[98]
        shown = "applied" if fenced else "none"
        print(f"{account:10}{shown:10}{p50:8.2f}{p99:8.2f}{len(taken):8}")


if __name__ == "__main__":
    main()

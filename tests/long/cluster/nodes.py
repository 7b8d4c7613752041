"""Nodes for a real control plane: pods are made, scheduled, and run as processes of this host.

kube-controller-manager is the real one; scheduler and kubelets are stand-ins.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from hack.binaries import controller_manager
from hack.control_plane import ControlPlane
from hack.playground import ROOT
from sharder.core.errors import ApiError, Unavailable
from sharder.kube.client import Client, connect
from tests.long.cluster.contents import Tree
from tests.long.cluster.pod import Pod
from tests.long.cluster.sandbox import image_of, require_rights
from tests.support.documented_ring import shell

APISERVER_FLAGS: Final = ("--bind-address=0.0.0.0", "--enable-aggregator-routing")
"""Pods reach it, and it reaches the pods of a Service by its EndpointSlices."""
NODES: Final = ("node-1", "node-2")
CONTROLLERS: Final = (
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "replicaset-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
)


class _Kubelets:
    """Schedules and runs all pods whose images are there."""

    def __init__(self, plane: ControlPlane, client: Client) -> None:
        self._plane, self._client = plane, client
        self._pods = dict[str, Pod]()

    async def run(self) -> None:
        """Run pods until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                with suppress(Unavailable):
                    await self._look(group)
                await asyncio.sleep(0.2)

    async def _look(self, group: asyncio.TaskGroup) -> None:
        pods = [each for each in await self._list("pods") if _is_ours(each)]
        for tree in pods:
            metadata = tree["metadata"]
            known = self._pods.get(metadata["uid"])
            if "nodeName" not in tree["spec"]:
                await self._schedule(tree, pods)
            elif known is None:
                pod = Pod(tree, self._plane, self._client)
                self._pods[metadata["uid"]] = pod
                group.create_task(pod.live(), name=metadata["name"])
            elif "deletionTimestamp" in metadata:
                known.delete(metadata["deletionGracePeriodSeconds"])

    async def _schedule(self, tree: Tree, pods: list[Tree]) -> None:
        """Bind a pod to the node with the fewest pods of its namespace."""
        namespace, name = tree["metadata"]["namespace"], tree["metadata"]["name"]
        there = [
            each["spec"].get("nodeName")
            for each in pods
            if each["metadata"]["namespace"] == namespace
            and "deletionTimestamp" not in each["metadata"]
        ]
        nodes = [
            each["metadata"]["name"]
            for each in await self._list("nodes")
            if not each["spec"].get("unschedulable")
        ]
        node = min(nodes, key=there.count)
        tree["spec"]["nodeName"] = node  # for those that are scheduled next
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        body: Tree = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        with suppress(ApiError):  # it is deleted, or tried again
            await self._client.request("POST", path, body=body)

    async def _list(self, resource: str) -> list[Tree]:
        answer = await self._client.request("GET", f"/api/v1/{resource}")
        found: list[Tree] = msgspec.json.decode(answer)["items"]
        return found


def _is_ours(pod: Tree) -> bool:
    return all(image_of(each["image"]) for each in pod["spec"]["containers"])


@dataclass(frozen=True, slots=True)
class Cluster:
    """The control plane with nodes, and an admin."""

    plane: ControlPlane
    client: Client
    folder: Path
    """Where commands are typed."""

    async def type(self, *commands: str) -> str:
        """Type commands in a shell, and return what the last one prints."""
        printed = ""
        for command in commands:
            done = await asyncio.to_thread(
                shell, command, self.plane.admin_kubeconfig, self.folder
            )
            assert done.returncode == 0, (command, done.stderr)
            printed = done.stdout
        return printed


@asynccontextmanager
async def nodes(plane: ControlPlane) -> AsyncIterator[Cluster]:
    """Run pods and their controllers as long as the block lasts."""
    require_rights()
    flags = (
        f"--controllers={','.join(CONTROLLERS)}",
        f"--root-ca-file={plane.directory / 'ca.pem'}",
        f"--kubeconfig={plane.admin_kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
    )
    command = [str(await asyncio.to_thread(controller_manager)), *flags]
    plane.supervisor.run("kube-controller-manager", command)
    folder = plane.directory / "checkout"
    folder.mkdir()
    for name in ("charts", "examples"):
        (folder / name).symlink_to(ROOT / name)
    client = await connect(str(plane.admin_kubeconfig))
    try:
        for name in NODES:
            await client.request("POST", "/api/v1/nodes", body={"metadata": {"name": name}})
        async with asyncio.TaskGroup() as group:
            running = group.create_task(_Kubelets(plane, client).run())
            yield Cluster(plane, client, folder)
            running.cancel()
    finally:
        await client.close()

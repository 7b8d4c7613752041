"""A pod from its start to its deletion, as a kubelet runs one whose containers restart always."""

import asyncio
import time
from contextlib import suppress

from hack.control_plane import ControlPlane
from sharder.core.errors import ApiError, NotFound
from sharder.kube.client import Client
from tests.long.cluster.container import Container
from tests.long.cluster.contents import Contents, Tree
from tests.long.cluster.sandbox import Sandbox
from tests.support.eventually import eventually

STRATEGIC_PATCH = "application/strategic-merge-patch+json"


class Pod:
    """A pod on a node."""

    def __init__(self, tree: Tree, plane: ControlPlane, client: Client) -> None:
        """`tree` is the pod as the API server has it, with its node."""
        metadata, spec = tree["metadata"], tree["spec"]
        sidecars, main = spec.get("initContainers", []), spec["containers"]
        policies = {spec["restartPolicy"], *(each.get("restartPolicy") for each in sidecars)}
        assert policies == {"Always"}, "whatever ends by itself is not run here"
        self._uid, name = metadata["uid"], metadata["name"]
        self._path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{name}"
        self._client = client
        self._sandbox = Sandbox(plane.supervisor, name)
        self._contents = Contents(tree, self._sandbox, plane, client)
        self._sidecars, self._main = (
            [Container(each, self._sandbox, self._contents) for each in specs]
            for specs in (sidecars, main)
        )
        self._is_initialized = False
        self._grace = asyncio.get_running_loop().create_future()

    def delete(self, grace: float) -> None:
        """End it within so many seconds."""
        if not self._grace.done():
            self._grace.set_result(grace)

    async def live(self) -> None:
        """Run it until it is deleted, and then let the API server forget it."""
        await self._sandbox.open()
        async with asyncio.TaskGroup() as group:
            reporting = group.create_task(self._report())
            running = group.create_task(self._run(group))
            grace = await self._grace
            running.cancel()
            await self._stop(time.monotonic() + grace)
            reporting.cancel()
        self._sandbox.close()
        body: Tree = {"gracePeriodSeconds": 0, "preconditions": {"uid": self._uid}}
        with suppress(NotFound):
            await self._client.request("DELETE", self._path, body=body)

    async def _run(self, group: asyncio.TaskGroup) -> None:
        # kube-controller-manager writes the CA into each namespace, some time.
        await eventually(self._contents.fill, within=60)
        for container in self._sidecars:
            group.create_task(container.run())
            await container.until_started()
        self._is_initialized = True
        for container in self._main:
            group.create_task(container.run())

    async def _stop(self, deadline: float) -> None:
        """Stop the main containers, and then the sidecars, the last first."""
        async with asyncio.TaskGroup() as group:
            for container in self._main:
                group.create_task(container.stop(deadline, ()))
            for number, sidecar in enumerate(self._sidecars):
                after = [*self._main, *self._sidecars[number + 1 :]]
                group.create_task(sidecar.stop(deadline, after))

    async def _report(self) -> None:
        """Write the status whenever it has changed."""
        written: Tree = {}
        while True:
            status = self._status()
            if status != written:
                with suppress(ApiError):
                    path, body = f"{self._path}/status", {"status": status}
                    await self._client.request(
                        "PATCH", path, body=body, content_type=STRATEGIC_PATCH
                    )
                    written = status
            await asyncio.sleep(0.1)

    def _status(self) -> Tree:
        is_ready = self._is_initialized and all(
            each.is_ready for each in self._main + self._sidecars
        )
        facts = {
            "Initialized": self._is_initialized,
            "ContainersReady": is_ready,
            "Ready": is_ready,
        }
        return {
            "phase": "Running" if self._is_initialized else "Pending",
            "podIP": self._sandbox.address,
            "podIPs": [{"ip": self._sandbox.address}],
            "conditions": [{"type": key, "status": str(value)} for key, value in facts.items()],
            "initContainerStatuses": [each.status for each in self._sidecars],
            "containerStatuses": [each.status for each in self._main],
        }

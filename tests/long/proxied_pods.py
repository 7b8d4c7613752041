"""Shards of kube-controller-manager: each is a controller and its proxy, as two processes."""

import asyncio
import signal
import sys
from pathlib import Path

import msgspec

from hack import binaries
from hack.playground import Playground
from hack.ports import free_ports
from sharder.kube.client import Client
from tests.support.eventually import eventually

NAMESPACE = "job-controller"
"""Of the shards."""
LEASES_PATH = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


class ProxiedPods:
    """The shards of one ring."""

    def __init__(
        self, playground: Playground, client: Client, *, ring: str, controllers: str
    ) -> None:
        """`controllers` are those that run, as kube-controller-manager names them."""
        self._playground = playground
        self._client = client
        self._ring = ring
        self._controllers = controllers
        self._ports: dict[str, int] = {}

    @property
    def _directory(self) -> Path:
        return self._playground.plane.directory

    async def start(self, name: str) -> None:
        """Start a shard and wait until it holds its Lease."""
        await self.start_proxy(name)
        self.start_controller(name)

        async def is_there() -> bool:
            path = f"{LEASES_PATH}/{name}"
            lease = msgspec.json.decode(await self._client.request("GET", path))
            return bool(lease["spec"].get("holderIdentity"))

        await eventually(is_there, within=120)

    async def start_proxy(self, name: str) -> None:
        """Start the proxy of a shard, and wait until its controller can be started."""
        token = await asyncio.to_thread(
            self._playground.plane.token_kubeconfig, NAMESPACE, NAMESPACE, pod=name
        )
        written = self._directory / f"{name}.proxied"
        written.unlink(missing_ok=True)
        port = self._ports.setdefault(name, free_ports(1)[0])
        sharder = str(Path(sys.executable).parent / "sharder")
        options = ("--port", str(port), "--controller-kubeconfig", str(written))
        self._playground.start_shard(
            f"proxy-{name}",
            [sharder, "proxy", self._ring, *options],
            KUBECONFIG=str(token),
            SHARD_NAME=name,
            SHARD_NAMESPACE=NAMESPACE,
            POD_UID=f"{name}-pod",
        )

        async def is_written() -> bool:
            assert self.is_running(f"proxy-{name}"), self._playground.plane.log_tail(
                f"proxy-{name}"
            )
            return written.exists()

        await eventually(is_written, within=60)

    def start_controller(self, name: str) -> None:
        """Start the controller of a shard."""
        program, given = str(binaries.controller_manager()), self._directory / f"{name}.proxied"
        flags = (f"--controllers={self._controllers}", "--secure-port=0", f"--kubeconfig={given}")
        self._playground.start_shard(f"controller-{name}", [program, *flags])

    def is_running(self, process: str) -> bool:
        """Return whether a process has not ended."""
        return self._playground.plane.supervisor.exit_code(process) is None

    async def until_ended(self, process: str) -> None:
        """Wait until a process has ended."""

        async def has_ended() -> bool:
            return not self.is_running(process)

        await eventually(has_ended, within=60)

    def send(self, process: str, number: signal.Signals) -> None:
        """Send a signal to `controller-NAME` or `proxy-NAME`."""
        self._playground.plane.supervisor.send(process, number)

    async def stop(self, name: str) -> None:
        """Stop a shard as the kubelet does: first the controller, then the sidecar."""
        for process in (f"controller-{name}", f"proxy-{name}"):
            if self.is_running(process):
                await asyncio.to_thread(self._playground.stop, process)

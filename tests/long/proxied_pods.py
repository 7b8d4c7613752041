"""Shards of controllers that nobody changed: each is a controller and its proxy, two processes."""

import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from hack.playground import Playground
from hack.ports import free_ports
from sharder.core.names import SHARDER_IDENTITY, ObjectRef
from sharder.kube.client import Client
from tests.support.eventually import eventually


class ProxiedPods:
    """The shards of one ring."""

    def __init__(
        self,
        playground: Playground,
        client: Client,
        *,
        ring: str,
        account: ObjectRef,
        command: Callable[[str], Sequence[str]],
        options: Callable[[str], Sequence[str]] = lambda _: (),
    ) -> None:
        """Set up.

        Args:
            playground: Has the ring.
            client: Reads the Leases.
            ring: The ring of these shards.
            account: The service account of the pods.
            command: Returns what runs as the controller of a pod; {} stands for its kubeconfig.
            options: Returns options of the proxy of a pod.
        """
        self._playground = playground
        self._client = client
        self._ring = ring
        self._account = account
        self._command = command
        self._options = options
        self._ports: dict[str, int] = {}

    @property
    def _directory(self) -> Path:
        return self._playground.plane.directory

    async def start(self, name: str) -> None:
        """Start a shard and wait until it holds its Lease."""
        await self.start_proxy(name)
        self.start_controller(name)
        await self.until_there(name)

    async def until_there(self, name: str) -> None:
        """Wait until a shard holds its Lease."""

        async def is_there() -> bool:
            at = f"/apis/coordination.k8s.io/v1/namespaces/{self._account.namespace}/leases"
            lease = msgspec.json.decode(await self._client.request("GET", f"{at}/{name}"))
            return lease["spec"].get("holderIdentity") not in {None, "", SHARDER_IDENTITY}

        await eventually(is_there, within=120)

    async def start_proxy(self, name: str) -> None:
        """Start the proxy of a shard, and wait until its controller can be started."""
        token = await asyncio.to_thread(
            self._playground.plane.token_kubeconfig, *self._account, pod=name
        )
        written = self._directory / f"{name}.proxied"
        written.unlink(missing_ok=True)
        port = self._ports.setdefault(name, free_ports(1)[0])
        sharder = str(Path(sys.executable).parent / "sharder")
        ours = ("--port", str(port), "--controller-kubeconfig", str(written))
        options = (*ours, *self._options(name))
        self._playground.start_shard(
            f"proxy-{name}",
            [sharder, "proxy", self._ring, *options],
            KUBECONFIG=str(token),
            SHARD_NAME=name,
            SHARD_NAMESPACE=self._account.namespace,
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
        given = str(self._directory / f"{name}.proxied")
        command = [given if word == "{}" else word for word in self._command(name)]
        self._playground.start_shard(f"controller-{name}", command, KUBECONFIG=given)

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

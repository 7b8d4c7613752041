"""A real control plane with a sharder, and rings of Secrets whose shards are only Leases."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from hack import objects
from hack.bench import load
from hack.bench.load import NUMBER, Job, Load, LoadError
from hack.control_plane import ControlPlane
from hack.playground import RING as EXAMPLE_RING
from hack.playground import Playground, wait_until_ready
from sharder.core.api.meta import Json
from sharder.core.names import RingName as Name
from sharder.core.names import owner_label

SHARDER: Final = "sharder-0"
SHARD: Final = "shard-{n}"
SELECTED: Final = "bench.example.com/ring"
"""Label of the namespaces of a ring."""
POLL_SECONDS: Final = 0.05
WAIT_SECONDS: Final = 600.0


class Scene:
    """The control plane; everything is written with the rights of its admin."""

    def __init__(self, plane: ControlPlane, playground: Playground, sender: Load) -> None:
        self.plane = plane
        self.playground = playground
        self._load = sender

    @property
    def pids(self) -> dict[str, int]:
        """The processes whose CPU time a write needs, by their names in the report."""
        return {
            "sharder": self.playground.pid(SHARDER),
            "API server": self.plane.pid("kube-apiserver"),
            "etcd": self.plane.pid("etcd"),
        }

    async def add_ring(self, name: str, *, shards: int) -> None:
        """Add a ring with shards, and return when its webhook configuration exists.

        If the ring has shards, the API server also calls the webhook by then.
        """
        spec: dict[str, Json] = {
            "resources": [{"group": "", "resource": "secrets"}],
            "namespaceSelector": {"matchLabels": {SELECTED: name}},
            "shardNamespaces": ["default"],
        }
        await asyncio.to_thread(self.plane.apply, [objects.ring(name, spec)])
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        configuration = f'"controllerring-{name}"'.encode()
        await self.until(lambda: configuration in self.get(path))
        if shards > 0:
            await self.add_shards(name, shards)
            await self.add_namespace(f"{name}-probe", name)
            await self.until_assigning(name)

    async def until_assigning(self, ring: str) -> None:
        """Return when the API server calls the webhook of a ring for new objects."""
        for number in range(round(WAIT_SECONDS / POLL_SECONDS)):
            try:
                label = owner_label(Name(ring))
                await self.create(f"{ring}-probe", 1, first=number, expect=label)
            except LoadError:
                await asyncio.sleep(POLL_SECONDS)
            else:
                return
        raise TimeoutError(f"ring {ring} assigns nothing")

    async def add_namespace(self, name: str, ring: str = "") -> None:
        """Add or update a namespace, which belongs to `ring` if a ring is named."""
        labels = {SELECTED: ring} if ring else {}
        await asyncio.to_thread(self.plane.apply, [objects.namespace(name, labels)])

    async def add_shards(self, ring: str, shards: int, *, first: int = 0) -> None:
        """Add Leases of shards that never renew them."""
        lease = objects.lease(f"{ring}-{SHARD}", ring, "default")
        path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
        await self.send(path, [json.dumps(lease)], shards, first=first)

    async def create(
        self,
        namespace: str,
        count: int,
        *,
        first: int = 0,
        expect: str = "",
        labels: Mapping[str, str] = MappingProxyType({}),
    ) -> load.Report:
        """Create Secrets over 20 connections."""
        path = f"/api/v1/namespaces/{namespace}/secrets"
        metadata = {"name": f"secret-{NUMBER}", **({"labels": dict(labels)} if labels else {})}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        bodies = [json.dumps({**secret, "data": {"key": "c2VjcmV0" * 16}})]
        return await self.send(path, bodies, count, first=first, expect=expect)

    async def send(
        self,
        path: str,
        bodies: Sequence[str],
        requests: int,
        *,
        method: str = "POST",
        first: int = 0,
        expect: str = "",
    ) -> load.Report:
        """Send requests to the API server over 20 connections."""
        kind = "application/json" if method == "POST" else "application/merge-patch+json"
        return await self._load.send(
            Job(
                url=self.plane.url,
                client=str(self.plane.admin_pem),
                connections=20,
                method=method,
                path=path,
                type=kind,
                bodies=bodies,
                first=first,
                requests=requests,
                expect=expect,
            )
        )

    async def play(self, timetable: Sequence[load.Entry]) -> load.Report:
        """Send these requests when they are due, whatever the answers are."""
        url, client = self.plane.url, str(self.plane.admin_pem)
        job = Job(url=url, client=client, connections=20, timetable=timetable)
        return await self._load.play(job)

    def has_any(self, namespace: str, labels: str) -> bool:
        """Return whether a namespace has a Secret that matches a label selector."""
        path = f"/api/v1/namespaces/{namespace}/secrets?limit=1&labelSelector={quote(labels)}"
        return bool(json.loads(self.get(path))["items"])

    def get(self, path: str) -> bytes:
        """Return the body of the API server's answer."""
        return self.plane.get(path)[1]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return when `holds` is true."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not await asyncio.to_thread(holds):  # noqa: ASYNC110 - of other processes
                await asyncio.sleep(POLL_SECONDS)


@asynccontextmanager
async def started(*, sharder: bool = True, flags: Sequence[str] = ()) -> AsyncIterator[Scene]:
    """Start a control plane without rings, with these flags, and by default a sharder."""
    plane = ControlPlane(apiserver_flags=flags)
    await asyncio.to_thread(plane.start)
    try:
        playground = Playground(plane)
        await asyncio.to_thread(playground.install)
        await asyncio.to_thread(plane.kubectl, "delete", "controllerrings", EXAMPLE_RING)
        async with load.started() as sender:
            scene = Scene(plane, playground, sender)
            if sharder:
                playground.start_sharder(SHARDER, gracefulShutDown="0s")
                await wait_until_ready(playground, SHARDER)
            yield scene
    finally:
        await asyncio.to_thread(plane.close)

"""The example controller as a process, under its own rights, on a real API server.

Each test has a ring of its own and plays the sharder: it writes the labels itself.
"""

import asyncio
import base64
import hashlib
import json
import os
import re
import signal
import sys
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest

from hack.control_plane import ControlPlane
from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.names import (
    EVACUATE_ANNOTATION,
    GroupResource,
    ObjectRef,
    RingName,
    drain_label,
    owner_label,
)
from sharder.kube.client import Client, connect
from sharder.kube.store import KubeStore
from sharder.kube.typed_stores import SECRETS, leases
from tests.support.eventually import eventually
from tests.support.samples import total
from tests.support.users import WITHIN

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "checksum-controller"
CRD = ROOT / "charts" / "sharder" / "templates" / "crd.yaml"
NAMESPACE = "checksum-controller"
ACCOUNT = "checksum-controller"
TIMING = {
    "SHARD_LEASE_DURATION": "5",
    "SHARD_RENEW_DEADLINE": "3",
    "SHARD_RETRY_PERIOD": "1",
}
CONFIGMAPS = Resource(
    id=GroupResource("", "configmaps"), version="v1", kind="ConfigMap", namespaced=True
)


class ConfigMap(PartialObject, frozen=True, kw_only=True):
    data: dict[str, str] | None = None


@dataclass
class Process:
    """A shard that runs, and what it has recorded."""

    process: asyncio.subprocess.Process
    name: str
    log: Path

    @property
    def lease(self) -> ObjectRef:
        return ObjectRef(NAMESPACE, self.name)

    def records(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def exit_code(self) -> int:
        async with asyncio.timeout(WITHIN):
            return await self.process.wait()


class Bench:
    """A ring of the test's own, and the hands of everybody but the shard."""

    def __init__(self, client: Client, ring: str, *, kubeconfig: Path, directory: Path) -> None:
        self.ring = RingName(ring)
        self.owner, self.drain = owner_label(self.ring), drain_label(self.ring)
        self.secrets = KubeStore(client, PartialObject, SECRETS, metadata_only=True)
        self.configmaps = KubeStore(client, ConfigMap, CONFIGMAPS)
        self.leases = leases(client)
        self._kubeconfig = kubeconfig
        self._directory = directory

    @asynccontextmanager
    async def shard(
        self, name: str, *, is_joining: bool = True, **environment: str
    ) -> AsyncGenerator[Process, None]:
        """Start the example as a process and wait until it holds its Lease, unless told not to."""
        unique = f"{name}-{self.ring}"
        flags = {
            "--kubeconfig": str(self._kubeconfig),
            "--ring": self.ring,
            "--name": unique,
            "--namespace": NAMESPACE,
        }
        arguments = [text for pair in flags.items() for text in pair]
        program = EXAMPLE / "controller.py"
        async with self.process(
            unique, program, *arguments, is_joining=is_joining, **environment
        ) as shard:
            yield shard

    @asynccontextmanager
    async def process(
        self,
        name: str,
        program: Path,
        *arguments: str,
        is_joining: bool = True,
        **environment: str,
    ) -> AsyncGenerator[Process, None]:
        """Start a shard of that name as a process; wait until it holds its Lease."""
        log = self._directory / f"{name}.log"
        with log.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(program),
                *arguments,
                stderr=stderr,
                env={**os.environ, **TIMING, **environment},
            )
        running = Process(process, name, log)
        try:
            if is_joining:
                await eventually(lambda: self.has_lease(running), within=WITHIN)
            yield running
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def create_secret(self, owner: str, value: str) -> ObjectRef:
        name = f"secret-{uuid.uuid4().hex[:8]}"
        body: Json = {"metadata": {"name": name, "labels": {self.owner: owner}}}
        await self.secrets.create("default", body)
        ref = ObjectRef("default", name)
        await self.write(ref, value)
        return ref

    async def write(self, ref: ObjectRef, value: str) -> None:
        await self.secrets.patch(ref, {"data": {"key": base64.b64encode(value.encode()).decode()}})

    async def label(self, ref: ObjectRef, labels: dict[str, str | None]) -> None:
        await self.secrets.patch(ref, {"metadata": {"labels": labels}})

    async def labels(self, ref: ObjectRef) -> dict[str, str]:
        return (await self.secrets.get(ref)).metadata.labels or {}

    async def asked_evacuation(self, shard: Process) -> str:
        return (await self.leases.get(shard.lease)).metadata.annotation(EVACUATE_ANNOTATION)

    async def checksums(self, ref: ObjectRef) -> ConfigMap:
        return await self.configmaps.get(ref._replace(name=f"{ref.name}-checksums"))

    async def has_checksum(self, ref: ObjectRef, value: str) -> bool:
        wanted = hashlib.sha256(value.encode()).hexdigest()
        return (await self.checksums(ref)).data == {"key": wanted}

    async def has_lease(self, shard: Process) -> Lease:
        lease = await self.leases.get(shard.lease)
        assert lease.spec.holder_identity == shard.name
        return lease


@pytest.fixture(scope="module")
def kubeconfig(control_plane: ControlPlane) -> Path:
    """The credentials of the example's own ServiceAccount."""
    control_plane.apply(EXAMPLE / "deploy" / "namespace.yaml")
    control_plane.apply(EXAMPLE / "deploy" / "rbac.yaml")
    return control_plane.token_kubeconfig(NAMESPACE, ACCOUNT)


@pytest.fixture
async def admin(admin_kubeconfig: Path) -> AsyncGenerator[Client, None]:
    client = await connect(str(admin_kubeconfig))
    yield client
    await client.close()


@pytest.fixture
def bench(admin: Client, kubeconfig: Path, tmp_path: Path) -> Bench:
    ring = f"sdk-{uuid.uuid4().hex[:8]}"
    return Bench(admin, ring, kubeconfig=kubeconfig, directory=tmp_path)


async def test_a_shard_serves_its_readiness_and_its_metrics(bench: Bench) -> None:
    async with bench.shard("a", SHARD_HTTP_ADDRESS="127.0.0.1:0") as shard:
        ref = await bench.create_secret(shard.name, "v1")
        await eventually(lambda: bench.has_checksum(ref, "v1"), within=WITHIN)
        messages = [record["message"] for record in shard.records()]
        (port,) = [m.split()[-1] for m in messages if m.startswith("serving health and metrics")]

        async def is_counted() -> None:
            scrape = await asyncio.to_thread(_get, port, "/metrics")
            resource = {"controllerring": bench.ring, "resource": "secrets"}
            assert total(scrape, "controller_sharding_owned_objects", **resource) == 1
            assert total(scrape, "controller_runtime_reconcile_total", result="success") >= 1
            assert total(scrape, "controller_sharding_lease_renewals_total", result="success") >= 1
            assert total(scrape, "rest_client_requests_total", method="PATCH") >= 1

        await eventually(is_counted, within=WITHIN)
        assert await asyncio.to_thread(_get, port, "/readyz") == '{"ready": true, "reason": ""}'


async def test_the_controller_in_the_documentation_works(
    admin: Client, kubeconfig: Path, tmp_path: Path
) -> None:
    guide = (ROOT / "docs" / "shard-your-controller.md").read_text()
    snippet = re.split(r"```python\n|```\n", guide[guide.index("```python") :])[1]
    program = tmp_path / "snippet.py"
    program.write_text(snippet)
    bench = Bench(admin, "my-ring", kubeconfig=kubeconfig, directory=tmp_path)

    async with bench.process(
        "snippet",
        program,
        SHARD_NAME="snippet",
        SHARD_NAMESPACE=NAMESPACE,
        KUBECONFIG=str(kubeconfig),
    ):
        ref = await bench.create_secret("snippet", "v1")

        made = await eventually(
            lambda: bench.configmaps.get(ref._replace(name=f"{ref.name}-keys")), within=WITHIN
        )
        await eventually(
            lambda: _says(bench, made.metadata.ref, {"key": "present"}), within=WITHIN
        )


def test_the_server_accepts_the_manifests_of_the_example(control_plane: ControlPlane) -> None:
    control_plane.apply(CRD)
    control_plane.kubectl("wait", "--for=condition=Established", "-f", str(CRD))
    # A dry run creates no namespace for what comes after it.
    control_plane.apply(EXAMPLE / "deploy" / "namespace.yaml")

    accepted = control_plane.kubectl(
        "apply", "--server-side", "--dry-run=server", "--kustomize", str(EXAMPLE)
    )

    assert "controllerring.sharding.timebertt.dev/checksum serverside-applied" in accepted
    assert "deployment.apps/checksum-controller serverside-applied" in accepted


async def _says(bench: Bench, ref: ObjectRef, data: dict[str, str]) -> bool:
    return (await bench.configmaps.get(ref)).data == data


def _get(port: str, path: str) -> str:
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=WITHIN) as response:
        body: bytes = response.read()
    return body.decode()

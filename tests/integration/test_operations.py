"""The commands that steer a ring on a real API server, as processes."""

import asyncio
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from hack.control_plane import ControlPlane
from sharder.cli.reports import OperationReport
from sharder.core.api.lease import LeaseSpec, format_time, lease_body
from sharder.core.api.meta import Json, PartialObject
from sharder.core.names import (
    API_GROUP,
    API_VERSION,
    CORDONED_ANNOTATION,
    EVACUATE_ANNOTATION,
    RING_LABEL,
    GroupResource,
    ObjectRef,
    RingName,
    owner_label,
)
from sharder.kube.client import Client, connect
from sharder.kube.objects import KubeObjects
from sharder.kube.store import KubeStore
from sharder.kube.typed_stores import LEASES, leases, namespaces, rings
from tests.support.documents import ROOT
from tests.support.eventually import eventually

CRD = ROOT / "charts/sharder/templates/crd.yaml"
SHARDER = Path(sys.executable).with_name("sharder")
PLUGIN = SHARDER.with_name("kubectl-shard")
CONFIGMAPS = GroupResource("", "configmaps")
A, B = "shard-a", "shard-b"
MAPS = 6
"""ConfigMaps of the ring, all of shard-a."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """A ring over a namespace of its name, with two shards that are Leases and nothing else."""

    name: RingName
    client: Client
    control_plane: ControlPlane

    def run(self, operation: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(operation, *arguments, program=PLUGIN),
            capture_output=True,
            text=True,
            check=False,
        )

    def command(self, operation: str, *arguments: str, program: Path = SHARDER) -> list[str]:
        where = ("--kubeconfig", str(self.control_plane.admin_kubeconfig))
        return [str(program), operation, self.name, *arguments, *where]

    async def start(self, operation: str, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self.command(operation, *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def annotations(self, shard: str) -> dict[str, str]:
        # As they are: the sharder keeps only what it reads.
        stored = KubeStore(self.client, PartialObject, LEASES)
        return (await stored.get(ObjectRef(self.name, shard))).metadata.annotations or {}

    async def is_evacuated(self) -> bool:
        return EVACUATE_ANNOTATION in await self.annotations(A)

    async def maps(self) -> KubeStore[PartialObject]:
        objects = KubeObjects(self.client)
        return objects.of(await objects.find(CONFIGMAPS), namespace=self.name)

    async def move(self, number: int, shard: str) -> None:
        """Do what the sharder and the shards would."""
        body: Json = {"metadata": {"labels": {owner_label(self.name): shard}}}
        await (await self.maps()).patch(ObjectRef(self.name, f"map-{number}"), body)

    async def renew(self) -> None:
        """Renew the Lease of shard-a, ten times as often as a shard would."""
        while True:
            await asyncio.sleep(0.2)
            body: Json = {"spec": {"renewTime": format_time(datetime.now(UTC))}}
            await leases(self.client).patch(ObjectRef(self.name, A), body)


@pytest.fixture
async def ring(control_plane: ControlPlane) -> AsyncIterator[Ring]:
    control_plane.apply(CRD)
    control_plane.kubectl("wait", "--for=condition=Established", "-f", str(CRD))
    client = await connect(str(control_plane.admin_kubeconfig))
    name = RingName(f"steered-{uuid.uuid4().hex[:8]}")
    ring = Ring(name=name, client=client, control_plane=control_plane)
    await namespaces(client).create("", {"metadata": {"name": name}})
    selector: Json = {"matchLabels": {"kubernetes.io/metadata.name": name}}
    await rings(client).create(
        "",
        {
            "apiVersion": f"{API_GROUP}/{API_VERSION}",
            "kind": "ControllerRing",
            "metadata": {"name": name},
            "spec": {"resources": [{"resource": "configmaps"}], "namespaceSelector": selector},
        },
    )
    now = format_time(datetime.now(UTC))
    for shard in (A, B):
        spec = LeaseSpec(
            holder_identity=shard, lease_duration_seconds=3600, acquire_time=now, renew_time=now
        )
        body = lease_body(
            name=shard, labels={RING_LABEL: name}, annotations={"note": "kept"}, spec=spec
        )
        await leases(client).create(name, body)
    for number in range(MAPS):
        metadata: Json = {"name": f"map-{number}", "labels": {owner_label(name): A}}
        await (await ring.maps()).create(name, {"metadata": metadata})
    yield ring
    meta = (await rings(client).get(ObjectRef("", name))).metadata
    await rings(client).delete(meta.ref, uid=meta.uid, resource_version=meta.resource_version)
    await client.close()


async def test_the_plugin_of_kubectl_is_the_same_program(ring: Ring) -> None:
    done = ring.run("cordon", A)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("shard-a is cordoned: ")
    assert CORDONED_ANNOTATION in await ring.annotations(A)


async def test_a_lease_that_is_being_renewed_is_written_all_the_same(ring: Ring) -> None:
    async with asyncio.TaskGroup() as group:
        renewals = group.create_task(ring.renew())
        process = await ring.start("cordon", A)
        await process.communicate()
        renewals.cancel()

    assert process.returncode == 0
    assert CORDONED_ANNOTATION in await ring.annotations(A)


async def test_an_evacuation_is_waited_for(ring: Ring) -> None:
    process = await ring.start("evacuate", A, "--wait", "--timeout", "2m", "-o", "json")
    await eventually(ring.is_evacuated, within=60)

    for number in range(MAPS):
        await ring.move(number, B)
    out, err = await process.communicate()

    assert (process.returncode, err) == (0, b"")
    assert msgspec.json.decode(out, type=OperationReport).objects == 0


async def test_ctrl_c_ends_the_waiting_and_not_the_evacuation(ring: Ring) -> None:
    process = await ring.start("evacuate", A, "--wait")
    await eventually(ring.is_evacuated, within=60)

    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()

    assert (process.returncode, out) == (130, b"")
    assert err.startswith(b"warning: interrupted; an evacuation that has begun continues: ")
    assert await ring.is_evacuated()

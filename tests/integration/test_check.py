"""`sharder check`, `dump` and `top` beside a running sharder, of a healthy installation."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
import pytest

from hack.control_plane import ControlPlane
from hack.playground import NAMESPACE, RING, SHARDS, Playground
from sharder.core.api.lease import format_time
from sharder.core.api.meta import Json
from sharder.core.diagnosis.check import CheckReport
from sharder.core.diagnosis.finding import Finding, Level
from sharder.core.names import RING_LABEL
from tests.support.documents import blocks, commands, section
from tests.support.eventually import eventually
from tests.support.users import WITHIN

SHARDER: Final = Path(sys.executable).with_name("sharder")
COMMANDS: Final = Path("docs/commands.md")
HELD: Final = ("shard-a", "shard-b")


class Cluster:
    """A playground with a sharder, two shards that hold their Leases, and some Secrets."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.playground = Playground(plane)

    def install(self) -> None:
        self.playground.install()
        for name in HELD:
            self.plane.apply(json.dumps(lease(name, seconds=3600)))
        self.playground.start_sharder(gracefulShutDown="0s")

    def kubectl(self, *words: str) -> str:
        return self.plane.kubectl(*words)

    def run(self, *words: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
        return self.shell(f"sharder {' '.join(words)}", kubeconfig)

    def shell(
        self, command: str, kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            env={
                **os.environ,
                "PATH": os.pathsep.join([str(SHARDER.parent), os.environ["PATH"]]),
                "KUBECONFIG": str(kubeconfig or self.plane.admin_kubeconfig),
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def check(self, *words: str, kubeconfig: Path | None = None) -> CheckReport:
        """Return the findings; the exit code has to fit them."""
        done = self.run("check", *words, "-o", "json", kubeconfig=kubeconfig)
        assert done.stdout, done.stderr
        report = msgspec.json.decode(done.stdout, type=CheckReport)
        assert done.returncode == (1 if report.failed else 0), done.stderr
        return report

    def faults(self, *words: str, kubeconfig: Path | None = None) -> dict[str, list[Finding]]:
        """Return what is not OK, by check."""
        found: dict[str, list[Finding]] = {}
        for each in self.check(*words, kubeconfig=kubeconfig).findings:
            if each.level is not Level.OK:
                found.setdefault(each.check, []).append(each)
        return found

    async def until_healthy(self) -> None:
        async def healthy() -> None:
            faults = self.faults()
            assert not faults, faults

        await eventually(healthy, within=2 * WITHIN)


def lease(name: str, *, seconds: int, age: timedelta = timedelta(), ring: str = RING) -> Json:
    """Return the Lease of a shard that renewed it so long ago."""
    renewed = format_time(datetime.now(UTC) - age)
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": SHARDS, "labels": {RING_LABEL: ring}},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": seconds,
            "acquireTime": renewed,
            "renewTime": renewed,
        },
    }


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ControlPlane() as plane:
        cluster = Cluster(plane)
        cluster.install()
        asyncio.run(cluster.until_healthy())
        yield cluster


async def test_a_healthy_installation_passes_every_check(cluster: Cluster) -> None:
    report = cluster.check()

    assert (report.failed, report.warned) == (0, 0)
    webhook = next(each for each in report.findings if each.check == "webhook")
    assert f"a dry-run create of a Secret in {NAMESPACE}" in webhook.message
    assert webhook.message.endswith(tuple(f"the owner is {shard}" for shard in HELD))


async def test_the_check_writes_nothing(cluster: Cluster) -> None:
    def stored() -> str:
        return cluster.kubectl("get", "secrets,configmaps,namespaces", "-A", "-o", "name")

    before = stored()
    cluster.check()

    assert stored() == before


async def test_every_command_of_the_document_works(cluster: Cluster) -> None:
    typed = [line.partition(" | jq ")[0] for line in commands(section(COMMANDS, "sharder check"))]
    assert len(typed) >= 2

    for command in typed:
        done = cluster.shell(command.replace("my-ring", RING))
        assert (done.returncode, done.stderr, bool(done.stdout)) == (0, "", True), command


async def test_a_user_on_call_can_make_every_check(cluster: Cluster) -> None:
    (rights,) = (block.text for block in blocks("yaml") if "sharder-on-call" in block.text)
    cluster.plane.apply(rights.replace("my-controller", SHARDS))
    on_call = cluster.plane.kubeconfig("alice", group="on-call")
    cluster.kubectl("create", "secret", "generic", "held", "-n", NAMESPACE)

    async def told() -> None:
        report = cluster.check(kubeconfig=on_call)
        levels = {each.check: each.level for each in report.findings}
        assert set(levels.values()) == {Level.OK}
        webhook = next(each for each in report.findings if each.check == "webhook")
        assert f"a dry-run update of the Secret {NAMESPACE}/" in webhook.message

    await eventually(told, within=WITHIN)

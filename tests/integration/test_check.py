"""`sharder check`, `dump` and `top` beside a running sharder, of a healthy installation."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from hack import objects
from hack.control_plane import ControlPlane
from hack.playground import NAMESPACE, RING, SHARDS, Playground
from sharder.core.diagnosis.finding import CheckReport, Level
from tests.support.documented_ring import shell
from tests.support.documents import blocks, commands, section
from tests.support.eventually import eventually
from tests.support.users import WITHIN

COMMANDS: Final = Path("docs/commands.md")
HELD: Final = ("shard-a", "shard-b")


class Cluster:
    """A playground with a sharder, two shards that hold their Leases, and some Secrets."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.playground = Playground(plane)

    def install(self) -> None:
        self.playground.install()
        self.plane.apply([objects.lease(name, RING, SHARDS) for name in HELD])
        self.playground.start_sharder(gracefulShutDown="0s")

    def shell(
        self, command: str, kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        access = kubeconfig or self.plane.admin_kubeconfig
        return shell(command, access, self.plane.directory)

    def check(self, kubeconfig: Path | None = None) -> CheckReport:
        """Return the findings; the exit code has to fit them."""
        done = self.shell("sharder check -o json", kubeconfig)
        assert done.stdout, done.stderr
        report = msgspec.json.decode(done.stdout, type=CheckReport)
        assert done.returncode == (1 if report.failed else 0), done.stderr
        return report

    async def until_healthy(self) -> None:
        async def healthy() -> None:
            faults = [each for each in self.check().findings if each.level is not Level.OK]
            assert not faults, faults

        await eventually(healthy, within=2 * WITHIN)


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
        return cluster.plane.kubectl("get", "secrets,configmaps,namespaces", "-A", "-o", "name")

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
    cluster.plane.kubectl("create", "secret", "generic", "held", "-n", NAMESPACE)

    async def told() -> None:
        report = cluster.check(on_call)
        levels = {each.check: each.level for each in report.findings}
        assert set(levels.values()) == {Level.OK}
        webhook = next(each for each in report.findings if each.check == "webhook")
        assert f"a dry-run update of the Secret {NAMESPACE}/" in webhook.message

    await eventually(told, within=WITHIN)

"""Facts about `sharder version`: what is installed in a cluster, and what is printed."""

import pytest

from sharder import __version__
from sharder.cli import tables
from sharder.cli.app import run_command
from sharder.cli.reports import VersionReport
from sharder.cli.version import installed
from sharder.core.api.meta import Json, Resource
from sharder.core.errors import Forbidden
from sharder.core.names import GroupResource
from tests.support.fakes import FakeObjects

DEPLOYMENTS = GroupResource("apps", "deployments")
NAME, VERSION = "app.kubernetes.io/name", "app.kubernetes.io/version"


def objects() -> FakeObjects:
    return FakeObjects(Resource(id=DEPLOYMENTS, version="v1", kind="Deployment", namespaced=True))


async def add(cluster: FakeObjects, name: str, *, namespace: str = "n", **labels: str) -> None:
    body: Json = {"metadata": {"name": name, "labels": labels}}
    await cluster.stores[DEPLOYMENTS].create(namespace, body)


async def test_the_versions_are_those_of_the_charts_deployments_in_the_namespace() -> None:
    cluster = objects()
    await add(cluster, "new", **{NAME: "sharder", VERSION: "0.3.0"})
    await add(cluster, "old", **{NAME: "sharder", VERSION: "0.2.0"})
    await add(cluster, "foreign", **{NAME: "other", VERSION: "9"})
    await add(cluster, "elsewhere", namespace="m", **{NAME: "sharder", VERSION: "8"})

    assert await installed(cluster, "n") == (("0.2.0", "0.3.0"), None)


async def test_the_reason_for_unknown_versions_is_reported() -> None:
    cluster = objects()
    assert await installed(cluster, "n") == (
        (),
        "no Deployment in n has the label app.kubernetes.io/name=sharder",
    )

    cluster.stores[DEPLOYMENTS].fail(Forbidden("no right to list deployments"))
    assert await installed(cluster, "n") == ((), "no right to list deployments")


@pytest.mark.parametrize(
    ("report", "lines"),
    [
        (VersionReport(client_version="1"), ["Client Version: 1"]),
        (
            VersionReport(client_version="1", sharder_versions=("2", "3"), server_version="v4"),
            ["Client Version: 1", "Sharder Version: 2, 3", "Server Version: v4"],
        ),
        (
            VersionReport(client_version="1", server_version="v4", problem="no right"),
            ["Client Version: 1", "Sharder Version: unknown: no right", "Server Version: v4"],
        ),
    ],
)
def test_versions_are_printed_as_kubectl_prints_them(
    report: VersionReport, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    tables.versions(report)

    assert capsys.readouterr().out.splitlines() == lines


def test_without_a_cluster_the_own_version_is_printed_and_the_command_fails(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = run_command(["version", "--kubeconfig", "/none"])

    told = capsys.readouterr()
    assert (code, told.out) == (1, f"Client Version: {__version__}\n")
    assert told.err.startswith("sharder: no kubeconfig at /none")

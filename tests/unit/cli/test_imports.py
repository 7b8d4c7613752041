"""A command starts quickly because it imports what it runs, and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sharder.cli import main
from sharder.kube.lean import skip_unused

SERVER = {"fastapi", "uvicorn", "uvloop", "httptools", "prometheus_client", "starlette"}
CLIENT = {"aiohttp", "kubernetes.aio.client", "yaml"}
REST_OF_CLIENT = {
    *("kubernetes.client", "kubernetes.config", "kubernetes.dynamic", "kubernetes.stream"),
    *("kubernetes.watch", "kubernetes.aio.dynamic", "kubernetes.aio.watch", "requests", "urllib3"),
}
PLAN = {"sharder.core.preview.plan", "sharder.core.preview.report", "sharder.core.rebalance.run"}
OTHERS = {"cryptography", "rich", "webhook", "sharder.cli.serve", "sharder.sdk"}
READING = SERVER | REST_OF_CLIENT | OTHERS


RUN = """
import sys
from sharder.cli import main
for command in sys.argv[1:]:
    sys.argv = ["sharder", *command.split()]
    try:
        main()
    except SystemExit:
        pass
print(*sys.modules, sep="\\n", file=sys.stderr)
"""


def imported(*commands: str, environment: dict[str, str]) -> set[str]:
    """Return the modules that a process has imported after these commands."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *commands],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    found = {*done.stderr.splitlines()}
    assert "sharder.cli.app" in found
    return found


@pytest.fixture
def nowhere(tmp_path: Path) -> dict[str, str]:
    """Return an environment without a cluster: a command ends when it has to connect."""
    return {"KUBECONFIG": str(tmp_path / "none"), "KUBERNETES_SERVICE_HOST": ""}


def test_help_and_what_asks_no_cluster_import_neither_client_nor_server(
    nowhere: dict[str, str],
) -> None:
    found = imported("rings --help", "run --help", "version --client", environment=nowhere)

    assert found & (READING | CLIENT | PLAN) == set()


def test_a_plan_from_a_dump_imports_no_client(nowhere: dict[str, str]) -> None:
    found = imported("plan --file none.json", environment=nowhere)

    assert found & (READING | {"asyncio", "aiohttp", "kubernetes.aio.client"}) == set()


@pytest.mark.parametrize(
    ("commands", "left_out"),
    [
        (("rings", "shards demo"), READING | PLAN),
        (("explain demo secret/a -n b", "plan demo"), READING),
    ],
)
def test_a_command_that_reads_imports_only_what_it_runs(
    commands: tuple[str, ...], left_out: set[str], nowhere: dict[str, str]
) -> None:
    found = imported(*commands, environment=nowhere)

    assert found & left_out == set()
    assert "sharder.kube.client" in found


def test_a_client_that_is_imported_already_stays_as_it_is() -> None:
    import kubernetes.client  # noqa: PLC0415 - long, and for this test alone

    skip_unused()

    assert kubernetes.client.ApiClient.__module__ == "kubernetes.client.api_client"


def test_what_was_left_out_is_imported_when_it_is_asked_for() -> None:
    program = (
        "from sharder.kube.lean import skip_unused; skip_unused()\n"
        "import kubernetes\n"
        "from kubernetes import client\n"
        "assert kubernetes.config.load_kube_config and client.ApiClient\n"
        "assert not hasattr(kubernetes, 'nothing')\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True)


MISSING = """
import sys
from sharder.cli import main
for module, command in (("typer", "rings"), ("cryptography", "certs"), ("uvicorn", "run")):
    sys.modules[module], sys.argv = None, ["sharder", command]
    try:
        main()
    except SystemExit as ended:
        print(ended, file=sys.stderr) if module == "typer" else print(ended.code)
    del sys.modules[module]
"""


def test_what_is_not_installed_is_named_with_the_extra_that_has_it(
    nowhere: dict[str, str],
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MISSING],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **nowhere},
    )

    advice = "is not installed; install the extra: pip install"
    assert done.stderr.splitlines() == [
        f"sharder: typer {advice} 'sharder[cli]'",
        f"sharder: cryptography {advice} 'sharder[cli]'",
        f"sharder: uvicorn {advice} 'sharder[server]'",
    ]
    assert done.stdout.split() == ["1", "1"]


def test_ctrl_c_before_a_command_has_begun_ends_it_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sharder.cli.app.main", interrupted)

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 130

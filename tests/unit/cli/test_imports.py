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


def imported(*arguments: str, environment: dict[str, str]) -> set[str]:
    """Return the modules that a process has imported when it ends."""
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr))\n"
        f"sys.argv = {['sharder', *arguments]}\n"
        "from sharder.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    found = {*done.stderr.splitlines()}
    assert "sharder.cli.app" in found
    return found


@pytest.fixture
def nowhere(tmp_path: Path) -> dict[str, str]:
    """Return an environment without a cluster: a command ends when it has to connect."""
    return {"KUBECONFIG": str(tmp_path / "none"), "KUBERNETES_SERVICE_HOST": ""}


@pytest.mark.parametrize("command", ["rings", "run"])
def test_help_imports_neither_client_nor_server(command: str, nowhere: dict[str, str]) -> None:
    found = imported(command, "--help", environment=nowhere)

    assert found & (READING | CLIENT | PLAN) == set()


@pytest.mark.parametrize(
    ("command", "left_out"),
    [
        ("rings", READING | PLAN),
        ("explain demo secret/a -n b", READING),
        ("version --client", READING | PLAN | CLIENT),
        ("plan demo", READING),
        ("plan --file none.json", READING | {"aiohttp", "kubernetes.aio.client"}),
    ],
)
def test_a_command_that_reads_imports_only_what_it_runs(
    command: str, left_out: set[str], nowhere: dict[str, str]
) -> None:
    found = imported(*command.split(), "--context=x", environment=nowhere)

    assert found & left_out == set()
    assert ("sharder.kube.client" in found) == (not {"--client", "--file"} & {*command.split()})


def test_the_service_leaves_out_what_it_does_not_use_of_the_client(
    nowhere: dict[str, str],
) -> None:
    found = imported("run", environment=nowhere)

    assert found & REST_OF_CLIENT == set()
    assert found >= {"kubernetes.aio.client", "webhook.server"}


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


@pytest.mark.parametrize(
    ("module", "arguments", "message"),
    [
        (
            "typer",
            ["rings"],
            "typer is not installed; install the extra: pip install 'sharder[cli]'",
        ),
        (
            "cryptography",
            ["certs"],
            "cryptography is not installed; install the extra: pip install 'sharder[cli]'",
        ),
        (
            "uvicorn",
            ["run"],
            "uvicorn is not installed; install the extra: pip install 'sharder[server]'",
        ),
    ],
)
def test_what_is_not_installed_is_named_with_the_extra_that_has_it(
    module: str, arguments: list[str], message: str, nowhere: dict[str, str]
) -> None:
    program = (
        f"import sys; sys.modules[{module!r}] = None; sys.argv = {['sharder', *arguments]}\n"
        "from sharder.cli import main; main()"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **nowhere},
    )

    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"sharder: {message}\n")


def test_ctrl_c_before_a_command_has_begun_ends_it_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sharder.cli.app.main", interrupted)

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 130

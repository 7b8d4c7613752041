"""A command starts quickly because it imports what it runs, and nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sharder.cli import main
from sharder.core.names import API_GROUP, API_VERSION

SERVER = {"uvloop", "httptools", "prometheus_client"}
CLIENT = {"yaml", "sharder.kube.session", "asyncio"}
SLOW = {"kubernetes", "pydantic", "typer", "rich", "importlib.metadata"}
"""What took most of the time to start."""
PLAN = {"sharder.core.plan.plan"}
OTHERS = {"cryptography", "webhook", "sharder.cli.serve", "sharder.sdk"}
READING = SERVER | SLOW | OTHERS


RUN = """
import sys
from sharder.cli import main
for command in sys.argv[1:]:
    sys.argv = ["sharder", *command.split()]
    try:
        main()
    except SystemExit:
        pass
    print("imported:", *sys.modules, file=sys.stderr)
"""


def imported(*commands: str, environment: dict[str, str]) -> list[set[str]]:
    """Return the modules that a process has imported after each of these commands."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *commands],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("imported:")]
    assert len(lines) == len(commands)
    return [{*line.split()} for line in lines]


@pytest.fixture
def nowhere(tmp_path: Path) -> dict[str, str]:
    """Return an environment without a cluster: a command ends when it has to connect."""
    return {"KUBECONFIG": str(tmp_path / "none"), "KUBERNETES_SERVICE_HOST": ""}


def test_a_command_imports_only_what_it_runs(nowhere: dict[str, str]) -> None:
    without_cluster = ("rings --help", "run --help", "--version")
    that_list = ("rings", "shards demo")
    that_plan = ("explain demo secret/a -n b", "plan demo")

    found = imported(*without_cluster, *that_list, *that_plan, "run", environment=nowhere)

    assert "sharder.cli.app" in found[0]
    assert found[2] & (READING | CLIENT | PLAN) == set()
    assert found[4] & (READING | PLAN) == set()
    assert found[6] & READING == set()
    assert found[6] >= PLAN | CLIENT - {"yaml"}
    assert found[7] >= {"webhook.server"}
    assert found[7] & {"kubernetes", "requests", "urllib3"} == set()


def test_a_plan_from_a_dump_imports_no_client_and_reads_json_without_yaml(
    nowhere: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "dump.json"
    ring = {"apiVersion": f"{API_GROUP}/{API_VERSION}", "kind": "ControllerRing"}
    file.write_text(json.dumps({**ring, "metadata": {"name": "demo"}}))

    (found,) = imported(f"plan --file {file}", environment=nowhere)

    assert found >= PLAN
    assert found & (READING | CLIENT) == set()


MISSING = """
import sys
from sharder.cli import main
for module, command in (("cryptography", "check"), ("httptools", "run")):
    sys.modules[module], sys.argv = None, ["sharder", command]
    try:
        main()
    except SystemExit as ended:
        print(ended.code)
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
        f"sharder: cryptography {advice} 'sharder[cli]'",
        f"sharder: httptools {advice} 'sharder[server]'",
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

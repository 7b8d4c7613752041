"""`sharder console`: the leader's console on a local port, for as long as the command runs."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sharder.cli.app import run_command
from tests.unit.cli.terminal import Terminal

PROGRAM = [sys.executable, "-c", "from sharder.cli import main; main()", "console", "--no-browser"]
KUBECTL = f"""#!/bin/sh
exec {sys.executable} -m http.server "${{3%%:*}}" --bind 127.0.0.1 2>/dev/null
"""


@contextmanager
def started(folder: Path, cluster: Terminal) -> Iterator[subprocess.Popen[str]]:
    """Run the command with a kubectl that forwards nothing."""
    (kubectl := folder / "kubectl").write_text(KUBECTL)
    kubectl.chmod(0o755)
    variables = {"PATH": f"{folder}:{os.environ['PATH']}", "KUBECONFIG": str(folder / "config")}
    pipe = subprocess.PIPE
    with cluster.serving(folder / "config"):
        yield subprocess.Popen(
            PROGRAM, env={**os.environ, **variables}, stdout=pipe, stderr=pipe, text=True
        )


def test_the_console_of_the_leader_is_forwarded_until_ctrl_c(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Terminal(capsys)
    cluster.others_do("lease sharding-system/sharder spec: {holderIdentity: sharder-0_uid}")

    with started(tmp_path, cluster) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        url = said.split()[-1].removesuffix("console")
        with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310
            status = answer.status
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=60)

    assert (said.startswith("Console of sharder-0: "), status) == (True, 200)
    assert (process.returncode, complaints) == (0, "")
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url, timeout=30)  # noqa: S310


def test_without_a_leader_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with started(tmp_path, Terminal(capsys)) as process:
        _, complaints = process.communicate(timeout=60)

    assert process.returncode == 1
    assert complaints.startswith("sharder: no replica leads: run sharder check")


def test_a_port_of_another_program_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert run_command(["console", "--port", str(other.getsockname()[1])]) == 1

    assert "cannot listen on port" in capsys.readouterr().err

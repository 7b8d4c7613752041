"""`sharder console`: the leader's console on a local port, for as long as the command runs."""

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

PROGRAM = [sys.executable, "-c", "from sharder.cli import main; main()", "console", "--no-browser"]
KUBECTL = """#!/bin/sh
[ "$1" = port-forward ] || exec printf %s "$HOLDER"
exec {python} -m http.server "${{3%%:*}}" --bind 127.0.0.1 2>/dev/null
"""


def started(folder: Path, holder: str) -> subprocess.Popen[str]:
    """Run the command with a kubectl that knows the holder of the Lease."""
    kubectl = folder / "kubectl"
    kubectl.write_text(KUBECTL.format(python=sys.executable))
    kubectl.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOLDER": holder}
    pipe = subprocess.PIPE
    return subprocess.Popen(PROGRAM, env=environment, stdout=pipe, stderr=pipe, text=True)


def test_the_console_of_the_leader_is_forwarded_until_ctrl_c(tmp_path: Path) -> None:
    with started(tmp_path, "sharder-0_uid") as process:
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


def test_without_a_leader_it_says_so(tmp_path: Path) -> None:
    with started(tmp_path, "") as process:
        _, complaints = process.communicate(timeout=60)

    assert process.returncode == 1
    assert complaints.startswith("sharder: no replica leads: run sharder check")

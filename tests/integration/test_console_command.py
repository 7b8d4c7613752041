"""`sharder console`: the leader's console on a local port, for as long as the command runs."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hack import binaries
from tests.support.documents import ROOT
from tests.support.service import Service

PROGRAM = Path(sys.executable).with_name("sharder")


@pytest.fixture
def environment(service: Service, tmp_path: Path) -> dict[str, str]:
    """A kubectl that reaches the sharder, although no kubelet runs its pod."""
    stand_in = tmp_path / "kubectl"
    stand_in.write_text(
        f'#!/bin/sh\nexec {sys.executable} {ROOT}/tests/support/kubectl_stand_in.py "$@"\n'
    )
    stand_in.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "KUBECTL": str(binaries.control_plane() / "kubectl"),
        "KUBECONFIG": str(service.admin),
        "FORWARD_TO": str(service.playground.ports("sharder-0")["console"]),
    }


@contextmanager
def running(environment: dict[str, str], *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [str(PROGRAM), "console", "--no-browser", *words]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)  # it ends kubectl too
            process.communicate(timeout=60)


def address_of(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Return what is printed before the address, and the address."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if " http://" in line:
            return said, line.split()[-1]
    raise AssertionError(said)


def get(url: str) -> tuple[int, bytes]:
    """Return the status and the body."""
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310
        return answer.status, answer.read()


def test_the_console_of_the_leader_is_opened_and_closed(environment: dict[str, str]) -> None:
    with running(environment) as process:
        said, url = address_of(process)
        page, rings = get(url), json.loads(get(f"{url}/rings/")[1])
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=60)

    assert said.startswith("Console of sharder-0: ")
    assert (page[0], rings["rings"]["replica"]["leading"]) == (200, True)
    assert (process.returncode, complaints) == (0, "")
    with pytest.raises(OSError, match="refused"):
        get(url)

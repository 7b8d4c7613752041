"""The launcher of the control plane: identities, isolation, and that nothing stays behind."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.control_plane import ControlPlane, KubectlError
from tests.support.eventually import eventually

ROOT = Path(__file__).parents[2]
CALLER = """
import signal
from hack.control_plane import ControlPlane, KubectlError
plane = ControlPlane()
plane.start()
print(plane.directory, plane.supervisor.pid, flush=True)
signal.pause()
"""


@pytest.fixture
def caller() -> Iterator[subprocess.Popen[str]]:
    """Another process that has a control plane of its own, running."""
    command = [sys.executable, "-c", CALLER]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def is_running(group: int) -> bool:
    """Return whether a process of a group lives; one that waits to be reaped does not."""
    stats = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            stats.append((process / "stat").read_text())
    # pid (name) state parent group …, and the name may contain anything: proc(5)
    fields = [stat.rpartition(")")[2].split() for stat in stats]
    return any(int(pgrp) == group and state not in "ZX" for state, _, pgrp, *_ in fields)


def is_left(directory: Path, group: int) -> bool:
    return directory.exists() or is_running(group)


def test_another_control_plane_beside_it_outlives_a_restart_of_its_api_server(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    with ControlPlane(directory=tmp_path / "other") as other:
        url = other.url
        other.kubectl("create", "namespace", "kept")

        other.restart_apiserver()

        assert other.url == url != control_plane.url
        assert other.kubectl("get", "namespace", "kept", "-o", "name") == "namespace/kept\n"
        with pytest.raises(KubectlError, match='"kept" not found'):
            control_plane.kubectl("get", "namespace", "kept")
    assert list(tmp_path.iterdir()) == []


async def test_a_killed_caller_leaves_no_process_and_no_data(
    caller: subprocess.Popen[str],
) -> None:
    assert caller.stdout is not None
    path, group = caller.stdout.readline().split()
    directory, supervisor = Path(path), int(group)
    assert is_running(supervisor)

    caller.send_signal(signal.SIGKILL)

    async def nothing_is_left() -> None:
        assert not is_left(directory, supervisor)

    await eventually(nothing_is_left, within=30)


def test_without_go_both_ways_out_are_named_in_one_line(tmp_path: Path) -> None:
    nowhere = {"KUBEBUILDER_ASSETS": "", "XDG_CACHE_HOME": str(tmp_path), "PATH": str(tmp_path)}

    done = subprocess.run(
        [sys.executable, "-m", "hack.binaries", "control-plane"],
        cwd=ROOT,
        env={**os.environ, **nowhere},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "install Go" in done.stderr
    assert "set KUBEBUILDER_ASSETS" in done.stderr

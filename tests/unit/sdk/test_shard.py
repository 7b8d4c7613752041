"""A shard that cannot work says why in one line, however its program logs."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
{setup}
from sharder.sdk import Shard

async def reconcile(request):
    pass

shard = Shard(ring="my-ring")
shard.reconciler("secrets", reconcile)
shard.run()
"""
BASIC = "import logging; logging.basicConfig()"
SOUND = {"SHARD_NAME": "shard-a", "SHARD_NAMESPACE": "default"}


def run(setup: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own, for logging is set up once in each."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(setup=setup)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    ("setup", "prefix"), [("", ""), (BASIC, "ERROR:sharder.sdk.shard:")], ids=["none", "basic"]
)
def test_a_bad_kubeconfig_is_named_in_one_line(setup: str, prefix: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")

    ended = run(setup, KUBECONFIG=missing, **SOUND)

    assert ended.returncode == 1
    assert ended.stderr.startswith(f"{prefix}shard failed: no kubeconfig at {missing}")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("environment", "problem"),
    [({"SHARD_WORKERS": "many"}, "SHARD_WORKERS='many'"), ({"SHARD_ZONE": "a b"}, "'a b'")],
    ids=["malformed", "unusable"],
)
def test_bad_settings_are_named_in_one_line(environment: dict[str, str], problem: str) -> None:
    ended = run("", **SOUND | environment)

    assert ended.returncode == 1
    assert ended.stderr.startswith("shard failed: ")
    assert problem in ended.stderr
    assert ended.stderr.count("\n") == 1

"""A shard that cannot work says why in one line, however its program logs."""

import json
import subprocess
import sys
from collections.abc import Mapping

import pytest

from sharder import sdk

PROGRAM = """
import json, logging, os, sys
from sharder.sdk import Shard

async def reconcile(request):
    pass

def end(environment):
    os.environ.update(environment)
    try:
        shard = Shard(ring="my-ring")
        shard.reconciler("secrets", reconcile)
        shard.run()
    except SystemExit as end:
        print(f"exit code {end.code}", file=sys.stderr)
    for name in environment:
        del os.environ[name]

for case, environment in json.loads(sys.argv[1]).items():
    if case == "basic":
        logging.basicConfig()
    end(environment)
"""
SOUND = {"SHARD_NAME": "shard-a", "SHARD_NAMESPACE": "default"}
NOWHERE = {"KUBECONFIG": "/nowhere/kubeconfig"}
CASES: Mapping[str, Mapping[str, str]] = {
    "malformed": {"SHARD_WORKERS": "many"},
    "unusable": {"SHARD_ZONE": "a b"},
    "none": NOWHERE,
    "basic": NOWHERE,
}
"""Variables of the environment; with the last, and none before, the program sets up logging."""


@pytest.fixture(scope="module")
def said() -> Mapping[str, str]:
    """What each case says; a process of its own, since logging is set up once in each."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(CASES)],
        env=SOUND,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    *lines, rest = ended.stderr.split("exit code 1\n")
    assert not rest
    return dict(zip(CASES, lines, strict=True))


@pytest.mark.parametrize(
    ("case", "prefix", "problem"),
    [
        ("none", "", f"no kubeconfig at {NOWHERE['KUBECONFIG']}"),
        ("basic", "ERROR:sharder.sdk.shard:", f"no kubeconfig at {NOWHERE['KUBECONFIG']}"),
        ("malformed", "", "SHARD_WORKERS: "),
        ("unusable", "", "'a b'"),
    ],
)
def test_what_keeps_a_shard_from_working_is_named_in_one_line(
    case: str, prefix: str, problem: str, said: Mapping[str, str]
) -> None:
    assert said[case].startswith(f"{prefix}shard failed: ")
    assert problem in said[case]
    assert said[case].count("\n") == 1


@pytest.mark.parametrize("name", sdk._DEPRECATED)
def test_a_name_that_goes_is_still_there_and_says_what_to_use(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"sharder.sdk.{name} will go: use "):
        assert getattr(sdk, name)

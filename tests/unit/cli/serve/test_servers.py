"""Facts about `sharder.cli.serve.servers`: the descriptors of the process and of a port."""

import resource
import subprocess
import sys

import pytest

from sharder.cli.serve.servers import connections_of


def test_the_limit_is_raised_to_the_hard_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    program = (
        "import resource; from sharder.cli.serve.servers import raise_limit;"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (64, {hard}));"
        "print(raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )

    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert told.stdout.split() == [str(hard)] * 3


@pytest.mark.parametrize(
    ("limit", "room"),
    [(1_048_576, 512), (1_024, 256), (2, 1), (resource.RLIM_INFINITY, 512)],
)
def test_a_port_gets_a_fourth_of_the_descriptors_at_most(limit: int, room: int) -> None:
    assert connections_of(512, limit) == room

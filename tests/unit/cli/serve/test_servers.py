"""Facts about `sharder.cli.serve.servers`: the descriptors of the process and of a port."""

import resource

import pytest

from sharder.cli.serve.servers import connections_of, raise_limit


def test_the_limit_is_raised_to_the_hard_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        raised = raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert raised == (hard, hard, hard)


@pytest.mark.parametrize(
    ("limit", "room"),
    [(1_048_576, 512), (1_024, 256), (2, 1), (resource.RLIM_INFINITY, 512)],
)
def test_a_port_gets_a_fourth_of_the_descriptors_at_most(limit: int, room: int) -> None:
    assert connections_of(512, limit) == room

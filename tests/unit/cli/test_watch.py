"""Facts about `--watch`: what it shows when time passes, and how often it reads."""

import asyncio

import pytest

from sharder.cli.cluster import Cluster
from sharder.cli.watch import PAUSE_SECONDS, watch
from sharder.core.errors import Unavailable
from tests.support.read_cluster import ReadCluster


async def test_what_is_read_replaces_the_screen_and_stays_while_the_api_server_is_away(
    capsys: pytest.CaptureFixture[str],
) -> None:
    read, answers = ReadCluster(), ["one", "", "two\nlines"]

    async def ask(_: Cluster) -> str:
        if not answers:
            raise asyncio.CancelledError
        if answer := answers.pop():
            return answer
        raise Unavailable("no answer")

    with pytest.raises(asyncio.CancelledError):
        await watch(read.cluster, ask=ask, draw=print)

    first, *screens = capsys.readouterr().out.split("\x1b[H\x1b[J")
    assert first == ""
    assert screens == ["two\nlines\n", "two\nlines\nnot refreshed: no answer\n", "one\n"]
    assert read.clock.slept == [PAUSE_SECONDS] * 3

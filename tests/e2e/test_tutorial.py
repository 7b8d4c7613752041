"""The tutorial, typed in its order where a demo has left a ring with two shards."""

import asyncio
import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from hack.control_plane import ControlPlane
from hack.ownership import Ownership, create_secrets, observing
from hack.playground import Playground, wait_until_ready
from sharder.core.api.ring import StrategyName
from tests.support.documents import ROOT, commands, read
from tests.support.eventually import eventually

TYPED = [
    command
    for command in commands(read(Path("docs/tutorial.md")))
    if not re.match(r"(KEEP=1 )?make ", command)
]
"""All commands but those that start and stop the demo."""
SHARDS = {"shard-2", "shard-3"}
SECRETS = 60


def typed(kubeconfig: Path) -> str:
    """Return what one shell shows that runs the commands, and stops at the first that fails."""
    shell = subprocess.Popen(
        ["bash", "-e", "-c", "\n".join(TYPED)],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        shown, _ = shell.communicate(timeout=300)
    finally:
        with suppress(ProcessLookupError):
            # The shard that the tutorial starts, if it did not come to its end.
            os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, shown
    return shown


async def play(plane: ControlPlane) -> tuple[str, Ownership]:
    """Return what the commands showed, and how the ring is afterwards."""
    playground = Playground(plane)
    playground.install()
    playground.place_by(StrategyName.BOUNDED_LOAD)
    playground.start_sharder()
    await wait_until_ready(playground)
    for name in SHARDS:
        playground.start_shard(name)
    async with observing(playground.author, StrategyName.BOUNDED_LOAD) as (observer, client):
        await create_secrets(client, [f"secret-{index:03}" for index in range(SECRETS)])
        await observer.settled(SHARDS, within=60)
        shown = await asyncio.to_thread(typed, plane.admin_kubeconfig)

        async def both_work() -> Ownership:
            now = await observer.look()
            assert set(now.live) == set(now.shares()) == SHARDS
            return now

        return shown, await eventually(both_work, within=60)


@pytest.fixture(scope="module")
def tutorial() -> tuple[str, Ownership]:
    with ControlPlane() as plane:
        return asyncio.run(play(plane))


def test_an_owner_label_that_a_reader_overwrites_is_the_old_one_again(
    tutorial: tuple[str, Ownership],
) -> None:
    before, after = re.findall(r"^mine .*/checksum=([\w-]+)", tutorial[0], re.MULTILINE)

    assert before == after != "shard-x"


def test_no_object_is_lost_on_the_way(tutorial: tuple[str, Ownership]) -> None:
    assert tutorial[1].shares().total() == SECRETS + 1

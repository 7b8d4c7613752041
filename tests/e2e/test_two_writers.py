"""No two shards are ever at work on one object; who breaks the protocol is found out.

What is read is what the shards themselves have logged of each work, when it began and ended.
"""

import asyncio
import sys
from dataclasses import dataclass
from typing import Final

import pytest

from hack.control_plane import ControlPlane
from hack.demo import wait_until_ready
from hack.ownership import Observer, create_secrets, observing
from hack.playground import ROOT, Playground
from tests.support.eventually import eventually
from tests.support.overlaps import overlaps, work_times

SLOW: Final = (sys.executable, "-m", "tests.e2e.slow_shard")
CARELESS: Final = "careless"
SECRETS: Final = 60
FIRST: Final = {"shard-0", "shard-1"}


@dataclass(slots=True, kw_only=True)
class Observed:
    """What the shards have logged."""

    shared: set[str]
    """Objects that more than one shard has worked on, all of them careful."""
    left_behind: int
    """How many objects a shard still had when it had left on purpose."""
    leaver_log: str
    careful: list[str]
    """Overlaps while all shards were careful."""
    careless: list[str]
    """Overlaps when one was not."""


@pytest.fixture(scope="module")
def observed() -> Observed:
    with ControlPlane() as plane:
        return asyncio.run(_play(plane))


def test_objects_moved_while_they_were_worked_on(observed: Observed) -> None:
    assert observed.shared


def test_a_shard_that_leaves_on_purpose_has_nothing_left_when_it_is_gone(
    observed: Observed,
) -> None:
    assert '"evacuated"' in observed.leaver_log
    assert observed.left_behind == 0


def test_no_two_shards_work_on_one_object(observed: Observed) -> None:
    assert observed.careful == []


def test_a_shard_that_releases_what_it_works_on_is_found_out(observed: Observed) -> None:
    assert observed.careless
    assert all(CARELESS in told for told in observed.careless)


async def _play(plane: ControlPlane) -> Observed:
    playground = Playground(plane)
    playground.install()
    playground.start_sharder(gracefulShutDown="0s")
    await wait_until_ready(playground)
    logs = plane.directory / "logs"
    async with observing(playground.author) as (observer, client):
        for name in FIRST:
            _start(playground, name)
        await eventually(lambda: _is_placed(observer, FIRST), within=60)
        await create_secrets(client, [f"secret-{index:02}" for index in range(SECRETS)])
        await eventually(lambda: _is_placed(observer, FIRST), within=60)

        live = FIRST | {"shard-2"}
        _start(playground, "shard-2")
        await eventually(lambda: _is_placed(observer, live), within=60)
        playground.kill("shard-0")
        live -= {"shard-0"}
        await eventually(lambda: _is_placed(observer, live), within=60)
        assert (await observer.look()).shares()["shard-1"]
        await asyncio.to_thread(playground.stop, "shard-1")
        left_behind = (await observer.look()).shares()["shard-1"]
        live -= {"shard-1"}
        await eventually(lambda: _is_placed(observer, live), within=60)
        careful = overlaps(logs, killed={"shard-0"})
        shards: dict[str, set[str]] = {}
        for work in work_times(logs):
            shards.setdefault(work.object, set()).add(work.shard)

        live |= {CARELESS}
        _start(playground, CARELESS, "--careless")
        await eventually(lambda: _is_placed(observer, live), within=60)
        _start(playground, "shard-3")
        await eventually(lambda: _is_placed(observer, live | {"shard-3"}), within=60)

        async def found_out() -> list[str]:
            told = overlaps(logs, killed={"shard-0"})
            assert told
            return told

        return Observed(
            shared={name for name, by in shards.items() if len(by) > 1},
            left_behind=left_behind,
            leaver_log=playground.log("shard-1"),
            careful=careful,
            careless=await eventually(found_out, within=20),
        )


def _start(playground: Playground, name: str, *flags: str) -> None:
    # The supervisor kills what has not ended 15 s after SIGTERM.
    settings = {"SHARD_WORKERS": str(SECRETS), "SHARD_DRAIN_ON_STOP": "10s"}
    playground.start_shard(name, (*SLOW, *flags), PYTHONPATH=str(ROOT), **settings)


async def _is_placed(observer: Observer, live: set[str]) -> None:
    now = await observer.look()
    assert now.live == live, now.live
    assert not now.misplaced(), now.misplaced()
    assert not now.orphans(), now.orphans()

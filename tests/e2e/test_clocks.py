"""Shards whose wall clocks are wrong: the healthy stay ready, the dead are found in time."""

import asyncio
import time
from dataclasses import dataclass

import pytest

from hack.control_plane import ControlPlane
from hack.demo import wait_until_ready
from hack.ownership import create_secrets, observing
from hack.playground import Playground
from hack.wrong_clock import clock_off_by
from sharder.core.api.lease import Lease, parse_time
from sharder.core.names import STATE_LABEL
from tests.e2e.trace import Trace, tracing

SKEWS = {"slow-40": -40, "fast-40": 40, "slow-3600": -3600, "fast-3600": 3600}
LEASE_SECONDS = 5
DYING = ("fast-3600", "slow-40")


@dataclass(slots=True, kw_only=True)
class Observed:
    """What there was to see."""

    skews: dict[str, float]
    """By how many seconds the times in each shard's Lease differ from our clock."""
    states: dict[str, set[str]]
    """The states that were printed of each shard in four durations of health."""
    early_takings: list[str]
    """Leases that were taken in that time."""
    found: dict[str, float]
    """Seconds from the death of a shard to the taking of its Lease."""
    takings: list[str]


@pytest.fixture(scope="module")
def observed(request: pytest.FixtureRequest) -> Observed:
    with ControlPlane() as plane:
        observed = asyncio.run(_play(plane))
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        found = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in observed.found.items())
        print(f"\nfound dead ({LEASE_SECONDS} s Leases): {found}")  # noqa: T201 - figures
    return observed


def test_the_clocks_are_really_wrong(observed: Observed) -> None:
    assert {name: round(skew / 10) * 10 for name, skew in observed.skews.items()} == SKEWS


def test_healthy_shards_stay_ready_and_keep_their_leases(observed: Observed) -> None:
    assert observed.states == {name: {"ready"} for name in SKEWS}
    assert observed.early_takings == []


@pytest.mark.parametrize("shard", DYING)
def test_a_dead_shard_is_found_after_two_durations(observed: Observed, shard: str) -> None:
    # The wrong clocks are 40 s off at least.
    assert LEASE_SECONDS < observed.found[shard] <= 4 * LEASE_SECONDS


def test_no_working_shard_is_declared_dead(observed: Observed) -> None:
    assert sorted(observed.takings) == sorted(DYING)


async def _play(plane: ControlPlane) -> Observed:
    playground = Playground(plane, lease_seconds=LEASE_SECONDS)
    playground.install()
    playground.start_sharder(gracefulShutDown="0s")
    await wait_until_ready(playground)
    async with observing(playground.author) as (observer, client), tracing(client) as trace:
        for name, skew in SKEWS.items():
            playground.start_shard(name, **clock_off_by(skew))
        await observer.settled(set(SKEWS), within=60)
        await create_secrets(client, [f"secret-{index:03}" for index in range(100)])
        await observer.settled(set(SKEWS), within=60)
        mark = trace.last_revision()
        await asyncio.sleep(4 * LEASE_SECONDS)
        states, early_takings = _states_after(trace, mark), trace.takings()
        async with asyncio.TaskGroup() as group:
            deaths = {
                name: group.create_task(_seconds_to_find(playground, trace, name))
                for name in DYING
            }
        await observer.settled(set(SKEWS) - set(DYING), within=60)
        return Observed(
            skews={name: _skew(trace, name) for name in SKEWS},
            states=states,
            early_takings=early_takings,
            found={name: death.result() for name, death in deaths.items()},
            takings=trace.takings(),
        )


async def _seconds_to_find(playground: Playground, trace: Trace, name: str) -> float:
    await asyncio.to_thread(playground.kill, name)
    began = time.monotonic()
    async with asyncio.timeout(60):
        while name not in trace.takings():  # noqa: ASYNC110 - a list, no event
            await asyncio.sleep(0.05)
    return time.monotonic() - began


def _states_after(trace: Trace, revision: int) -> dict[str, set[str]]:
    states: dict[str, set[str]] = {name: set() for name in SKEWS}
    for write in trace.leases:
        if write.revision > revision:
            states[write.obj.metadata.name].add(write.obj.metadata.label(STATE_LABEL))
    return states


def _skew(trace: Trace, name: str) -> float:
    """Return how far the first renewal of a shard lies from when we saw it."""
    first = next(w for w in trace.leases if w.obj.metadata.name == name)
    assert isinstance(first.obj, Lease)
    renewed = parse_time(first.obj.spec.renew_time)
    assert renewed is not None
    return (renewed - first.seen).total_seconds()

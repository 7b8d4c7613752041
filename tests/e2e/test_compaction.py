"""etcd forgets its history every two seconds and connections break: nothing is missed.

Without the API server's watch cache each watch reads etcd itself.  So a client that resumes a
watch, or asks for a next page, after a compaction gets the answer 410, and must list again.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from hack import etcd
from hack.control_plane import ControlPlane
from hack.demo import wait_until_ready
from hack.ownership import Ownership, create_secrets, observing
from hack.playground import RING, Playground
from sharder.core.names import STATE_LABEL
from sharder.kube.client import Client
from tests.e2e.stand_in import StandIn, keep_running, stand_ins
from tests.e2e.trace import Trace, tracing
from tests.support.eventually import eventually
from tests.support.forwarder import Forwarder

SECONDS = 40
COMPACT_EVERY = 2.0
CUT_EVERY = 15.0
"""More than a back-off and twice a victim's Lease: behind a broken watch no Lease is taken."""
OBJECTS = 600
"""More than a page."""
STEADY = ("shard-0", "shard-1")
GUEST = "shard-2"
"""Comes and goes."""
LEAVERS = tuple(f"leaver-{index}" for index in range(5))
"""Stand-ins that join and give their Leases back."""
VICTIMS = tuple(f"victim-{index}" for index in range(3))
"""Stand-ins that join and are silent from some moment on."""
LEASE_SECONDS = 5
VICTIM_SECONDS = 3


@dataclass(slots=True, kw_only=True)
class Observed:
    """What there was to see."""

    compactions: int
    missed: int
    """How many watches of the sharder had to begin anew."""
    created: int
    trace: Trace
    end: Ownership
    logs: dict[str, str]
    """Of all processes, by name."""
    restarts: list[str]
    """Shards that lost their Leases and were started anew."""


@pytest.fixture(scope="module")
def observed(request: pytest.FixtureRequest) -> Observed:
    with ControlPlane(apiserver_flags=["--watch-cache=false"]) as plane, Forwarder() as way:
        way.lead_to(_port(plane))
        observed = asyncio.run(_play(plane, way))
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(  # noqa: T201 - figures to compare from run to run
            f"\n{observed.compactions} compactions; the sharder listed anew {observed.missed} "
            f"times; {observed.created} objects created meanwhile; restarted {observed.restarts}"
        )
    return observed


def test_the_sharder_had_to_list_anew(observed: Observed) -> None:
    assert observed.compactions >= SECONDS / COMPACT_EVERY / 2
    assert observed.missed > 0


def test_every_shard_that_joins_is_shown_as_ready(observed: Observed) -> None:
    assert {name for name, state in _shown(observed.trace) if state == "ready"} == {
        *STEADY,
        GUEST,
        *LEAVERS,
        *VICTIMS,
    }


def test_every_shard_that_leaves_or_falls_silent_is_shown_as_dead(observed: Observed) -> None:
    dead = {name for name, state in _shown(observed.trace) if state == "dead"}

    assert dead == {GUEST, *LEAVERS, *VICTIMS}


def test_the_leases_of_the_silent_are_taken_and_of_no_working_shard(observed: Observed) -> None:
    taken = set(observed.trace.takings())

    assert taken >= set(VICTIMS)
    assert taken.isdisjoint(STEADY)


def test_all_objects_end_with_live_owners_where_the_ring_wants_them(observed: Observed) -> None:
    assert observed.end.faults() == ""
    assert len(observed.end.secrets) == OBJECTS + observed.created


def test_no_object_is_taken_from_a_working_shard(observed: Observed) -> None:
    assert observed.trace.robberies() == []


def test_nothing_crashes(observed: Observed) -> None:
    lines = [line for log in observed.logs.values() for line in log.splitlines()]

    assert [line for line in lines if "Traceback" in line] == []


async def _play(plane: ControlPlane, way: Forwarder) -> Observed:
    playground = Playground(plane, lease_seconds=LEASE_SECONDS)
    playground.install()
    for identity in ("sharder", "shard"):
        file = playground.kubeconfig_of(identity)
        file.write_text(file.read_text().replace(f":{_port(plane)}", f":{way.port}"))
    playground.start_sharder(gracefulShutDown="0s")
    await wait_until_ready(playground)
    seconds = dict.fromkeys(LEAVERS, LEASE_SECONDS) | dict.fromkeys(VICTIMS, VICTIM_SECONDS)
    async with (
        observing(playground.author) as (observer, client),
        tracing(client) as trace,
        stand_ins(str(playground.kubeconfig_of("shard")), RING, seconds) as guests,
    ):
        for name in STEADY:
            playground.start_shard(name)
        restarts: list[str] = []
        await observer.settled(set(STEADY), within=60)
        await create_secrets(client, [f"secret-{index:04}" for index in range(OBJECTS)])
        await observer.settled(set(STEADY), within=60)
        async with asyncio.TaskGroup() as group:
            kubelet = group.create_task(keep_running(playground, STEADY, restarts))
            async with _disturbing(plane, way) as compactions:
                created = await _come_and_go(playground, client, guests, trace)
            end, _ = await observer.settled(set(STEADY), within=60)
            kubelet.cancel()
        logs = {name: playground.log(name) for name in ("sharder-0", *STEADY, GUEST)}
        return Observed(
            compactions=len(compactions),
            missed=logs["sharder-0"].count("watch expired (410), relisting"),
            created=created,
            trace=trace,
            end=end,
            logs=logs,
            restarts=restarts,
        )


def _port(plane: ControlPlane) -> int:
    return int(plane.url.rpartition(":")[2])


@asynccontextmanager
async def _disturbing(plane: ControlPlane, way: Forwarder) -> AsyncIterator[list[int]]:
    """Compact and cut all through the block; yield the revisions of the compactions."""
    revisions: list[int] = []

    async def compact() -> None:
        while True:
            revisions.append(await asyncio.to_thread(etcd.compact, plane.etcd_url))
            await asyncio.sleep(COMPACT_EVERY)

    async def cut() -> None:
        while True:
            await asyncio.sleep(CUT_EVERY)
            way.cut()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(compact()), group.create_task(cut())]
        yield revisions
        for task in tasks:
            task.cancel()


async def _come_and_go(
    playground: Playground, client: Client, guests: dict[str, StandIn], trace: Trace
) -> int:
    """Let shards join, leave and fall silent while objects are made; return how many were."""
    created = 0
    async with asyncio.TaskGroup() as group:
        for index, name in enumerate(LEAVERS):
            group.create_task(_visit(guests[name], name, trace, after=6 * index, leaves=True))
        for index, name in enumerate(VICTIMS):
            group.create_task(
                _visit(guests[name], name, trace, after=3 + 12 * index, leaves=False)
            )
        group.create_task(_host(playground))
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            await create_secrets(client, [f"meanwhile-{created:04}"])
            created += 1
            await asyncio.sleep(0.2)
        await eventually(lambda: _are_taken(trace), within=30)
    return created


async def _visit(guest: StandIn, name: str, trace: Trace, *, after: float, leaves: bool) -> None:
    """Be a shard until that is shown and a little longer, and then leave or fall silent."""
    await asyncio.sleep(after)
    async with asyncio.TaskGroup() as group:
        life = group.create_task(guest.live())
        await eventually(lambda: _is_ready(trace, name), within=30)
        await asyncio.sleep(2)
        life.cancel()
    if leaves:
        await guest.leave()


async def _is_ready(trace: Trace, name: str) -> bool:
    return (name, "ready") in _shown(trace)


async def _host(playground: Playground) -> None:
    await asyncio.sleep(5)
    playground.start_shard(GUEST)
    await asyncio.sleep(20)
    await asyncio.to_thread(playground.stop, GUEST)


async def _are_taken(trace: Trace) -> bool:
    return set(trace.takings()) >= set(VICTIMS)


def _shown(trace: Trace) -> set[tuple[str, str]]:
    """Return every state that the label of a shard's Lease has ever shown, with its name."""
    return {(w.obj.metadata.name, w.obj.metadata.label(STATE_LABEL)) for w in trace.leases}

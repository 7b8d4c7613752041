"""A nemesis run: shards, sharders, users, and all the faults of a seed."""

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from hack.control_plane import ControlPlane
from hack.demo import wait_until_ready
from hack.playground import NAMESPACE, RING, ROOT, Playground
from sharder.core.names import RingName
from sharder.kube.client import connect
from tests.e2e.replicas import FAST_ELECTION
from tests.long.etcd_history import APISERVER_FLAGS
from tests.long.nemesis.actors import Actors
from tests.long.nemesis.recording import Recording
from tests.long.nemesis.schedule import schedule
from tests.long.nemesis.traces import Trace, Work
from tests.long.nemesis.users import Users
from tests.long.worker import shard_of
from tests.support.eventually import eventually
from tests.support.forwarder import Forwarder
from tests.support.overlaps import work_times

LEASE_SECONDS: Final = 5
SHARDS: Final = ("p0", "p1", "p2", "p3")
SHARDERS: Final = ("sharder-0", "sharder-1")
WORK_SECONDS: Final = 0.2
REST_SECONDS: Final = 60.0
"""After the last fault, by when everything is as it should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What came of it."""

    trace: Trace
    faults: Sequence[str]
    requests: Mapping[str, int]
    fallen: Sequence[str]
    """Processes that ended by themselves."""
    rest: float
    """Seconds from the last fault until all was owned, infinite if it was not in time."""


def play(seconds: float, seed: int, *, rate: float, population: int) -> Played:
    """Play all faults of a seed, and let everything come to rest after them."""
    with ControlPlane(apiserver_flags=APISERVER_FLAGS) as plane, Forwarder() as service:
        playground = Playground(plane, service_port=service.port, lease_seconds=LEASE_SECONDS)
        playground.install()

        def lead() -> None:
            service.offer(*map(playground.webhook_port, SHARDERS))

        def start(name: str) -> None:
            work = ("--children", "--work", str(WORK_SECONDS))
            command = (sys.executable, "-m", "tests.long.worker", RING, *work)
            playground.start_shard(name, command, PYTHONPATH=str(ROOT), SHARD_WORKERS="20")

        for name in SHARDERS:
            playground.start_sharder(name, gracefulShutDown="1s", leaderElection=FAST_ELECTION)
        for name in SHARDERS:
            asyncio.run(wait_until_ready(playground, name))
        lead()
        for name in SHARDS:
            start(name)
        actors = Actors(
            plane=plane,
            playground=playground,
            recording=Recording(RingName(RING), NAMESPACE),
            shards=SHARDS,
            sharders=SHARDERS,
            ports=lead,
            start_shard=start,
        )
        return asyncio.run(_play(actors, seconds, seed, rate=rate, population=population))


async def _play(
    actors: Actors, seconds: float, seed: int, *, rate: float, population: int
) -> Played:
    recording, rng = actors.recording, Random(seed)
    client = await connect(str(actors.playground.author))
    users = Users(client, NAMESPACE, Random(rng.random()))
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.TaskGroup() as group:
            watching = [
                group.create_task(recording.follow(actors.plane.etcd_url)),
                group.create_task(actors.keep_running()),
            ]
            await eventually(lambda: _all_join(actors), within=REST_SECONDS)
            await users.create(population)
            await eventually(lambda: _is_at_rest(actors), within=REST_SECONDS)
            working = group.create_task(users.work(rate, population))
            await actors.carry_out(schedule(rng, seconds, shards=SHARDS, sharders=SHARDERS))
            working.cancel()
            began, rest = loop.time(), float("inf")
            with suppress(AssertionError):
                await eventually(lambda: _is_at_rest(actors), within=REST_SECONDS)
                rest = loop.time() - began
            for task in watching:
                task.cancel()
    finally:
        await client.close()
    trace = Trace(
        writes=sorted(recording.writes, key=lambda w: w.revision),
        children=sorted(recording.children, key=lambda c: c.revision),
        leases=sorted(recording.leases, key=lambda each: each.revision),
        events=recording.events,
        outages=recording.outages,
        leading=sorted(recording.leading),
        refused=users.failed,
        works=list(_works(actors.plane.directory / "logs")),
    )
    return Played(
        trace=trace, faults=actors.done, requests=users.done, fallen=actors.fallen, rest=rest
    )


def _works(logs: Path) -> Iterator[Work]:
    for each in work_times(logs):
        yield Work(object=each.object, shard=each.shard, began=each.began, ended=each.ended)


async def _all_join(actors: Actors) -> bool:
    held = {each.shard for each in actors.recording.leases if each.is_held}
    return held >= {shard_of(RING, name) for name in SHARDS}


async def _is_at_rest(actors: Actors) -> None:
    there = {each.shard: each.is_held for each in actors.recording.leases}
    assert all(there.get(shard_of(RING, name)) for name in SHARDS), there
    odd = [
        f"{w.name} {w.owner} {w.draining}"
        for w in actors.recording.now.values()
        if not w.owner or w.draining or not there.get(w.owner)
    ]
    assert not odd, (len(odd), odd[:3])

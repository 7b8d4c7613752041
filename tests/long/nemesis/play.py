"""A nemesis run: shards, sharders, users, and all the faults of a seed."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Final

from hack.playground import NAMESPACE, RING
from sharder.core.names import RingName
from sharder.kube.client import connect
from tests.history.judging import judge
from tests.history.recording import Recording
from tests.history.schedule import schedule
from tests.history.traces import Trace
from tests.history.works import works_in
from tests.long.nemesis.actors import Actors
from tests.long.nemesis.faults import Faults
from tests.long.nemesis.stage import PROCESSES, SHARDERS, Setup, Stage, stage
from tests.long.nemesis.users import Users
from tests.long.worker import shard_of
from tests.support.eventually import eventually

SHARDS: Final = frozenset(shard_of(RING, name) for name in PROCESSES)
REST_SECONDS: Final = 60.0
"""After the last fault, by when everything is as it should be."""
THREADS: Final = 64
POLL_SECONDS: Final = 5.0
"""Between two judgements of a run with a deliberate bug."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What came of it."""

    setup: Setup
    trace: Trace
    faults: Sequence[str]
    requests: Mapping[str, int]
    fallen: Sequence[str]
    """Processes that ended by themselves."""
    rest: float
    """Seconds from the last fault until all was owned, infinite if it was not in time."""
    found_after: float = inf
    """Seconds from the start of the shards until a deliberate bug had broken a promise."""


def play(setup: Setup) -> Played:
    """Play all faults of a seed, and let everything come to rest after them.

    A run with a deliberate bug ends when that was found.
    """
    with stage(setup) as one:
        return asyncio.run(_play(one))


async def _play(one: Stage) -> Played:
    # Some wait for a command that the API server does not answer; no fault must wait for these.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    setup, rng = one.setup, Random(one.setup.seed)
    skews = {shard_of(RING, n) if n in PROCESSES else n: s for n, s in one.skews.items()}
    recording = Recording(RingName(RING), NAMESPACE, skews=skews)
    actors = Actors(one, recording)
    client = await connect(str(one.playground.author))
    play = _Play(
        one=one,
        actors=actors,
        faults=Faults(actors),
        users=Users(client, NAMESPACE, Random(rng.random())),
        rng=rng,
    )
    try:
        async with asyncio.TaskGroup() as group:
            beside = [
                group.create_task(recording.follow(one.plane.etcd_url)),
                group.create_task(actors.keep_running()),
                group.create_task(play.users.collect(recording.orphans)),
            ]
            rest, found_after = await _first_of(
                play.run(), *([play.until_found()] if setup.mutant else [])
            )
            for task in beside:
                task.cancel()
    finally:
        await client.close()
    return Played(
        setup=setup,
        trace=play.trace(),
        faults=play.faults.done,
        requests=play.users.done,
        fallen=actors.fallen,
        rest=rest,
        found_after=found_after,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Play:
    """A run in progress."""

    one: Stage
    actors: Actors
    faults: Faults
    users: Users
    rng: Random

    async def run(self) -> tuple[float, float]:
        """Return the seconds from the last fault until it came to rest; no bug was found then."""
        setup, loop = self.one.setup, asyncio.get_running_loop()
        try:
            await eventually(self._all_join, within=REST_SECONDS)
            await self.users.create(setup.objects)
            await eventually(self._is_at_rest, within=REST_SECONDS)
        except AssertionError:
            if setup.mutant:
                return inf, inf
            raise
        faults = schedule(self.rng, setup.minutes * 60, shards=PROCESSES, sharders=SHARDERS)
        async with asyncio.TaskGroup() as group:
            working = group.create_task(self.users.work(setup.rate, setup.objects))
            await self.faults.carry_out(faults)
            working.cancel()
        began = loop.time()
        with suppress(AssertionError):
            await eventually(self._is_at_rest, within=REST_SECONDS)
            return loop.time() - began, inf
        return inf, inf

    async def until_found(self) -> tuple[float, float]:
        """Return when a promise was broken, and after how many seconds that was.

        What a history shows stays so; what one look finds and the next does not was only not
        recorded yet.
        """
        loop = asyncio.get_running_loop()
        began, before = loop.time(), frozenset[str]()
        while True:
            at = loop.time()
            # In a thread: what is recorded meanwhile is not to be seen late.
            found = await asyncio.to_thread(self._broken)
            if found & before:
                return inf, at - began
            before = found
            await asyncio.sleep(POLL_SECONDS)

    def _broken(self) -> frozenset[str]:
        broken = judge(self.trace()).broken()
        return frozenset(f"{what}: {each}" for what, them in broken.items() for each in them)

    def trace(self) -> Trace:
        """Return all that was seen until now."""
        return self.actors.recording.trace(
            refused=self.users.failed,
            works=list(works_in(self.one.plane.directory / "logs", killed=self.actors.down)),
            sent=list(self.one.log.sent()),
            fenced=[f"{shard}: {message}" for shard, message in self.one.log.refusals()],
        )

    async def _all_join(self) -> bool:
        return {each.shard for each in self.actors.recording.leases if each.is_held} >= SHARDS

    async def _is_at_rest(self) -> None:
        recording = self.actors.recording
        held = {each.shard: each.is_held for each in recording.leases}
        assert all(held.get(shard) for shard in SHARDS), held
        odd = [
            f"{write.name} {write.owner} {write.draining}"
            for write in recording.now.values()
            if write.owner not in SHARDS or write.draining
        ]
        odd += recording.apart()
        assert not odd, (len(odd), odd[:3])


async def _first_of(
    *ways: Coroutine[None, None, tuple[float, float]],
) -> tuple[float, float]:
    """Return what the first of them returns, and end the others."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(way) for way in ways]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
    return done.pop().result()

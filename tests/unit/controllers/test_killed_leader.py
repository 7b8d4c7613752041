"""A leader that is killed after any of its writes: they are all that its successor knows.

Source:
    Sun et al., Automatic Reliability Testing for Cluster Management Controllers (Sieve), OSDI
    2022: intermediate states.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from sharder.core.errors import Unavailable
from sharder.core.names import RING_LABEL
from tests.support.cluster import Cluster
from tests.support.effort import share
from tests.support.replica import Replica
from tests.support.values import CONFIGMAPS, DRAIN, OWNER, SECRETS, A, B, C, D

STEP = 2.0
"""Seconds between two renewals of a shard, in which it also acknowledges drains."""

PLACING, RESTING = 3, 30
"""Steps in which all objects get a shard, and in which all comes to rest: a leader's Lease has to
run out, and then that of a shard to be silent for twice its duration."""

OBJECTS = 5


class Line:
    """Between a process and the API server, until the process is killed."""

    def __init__(self) -> None:
        self.writes = 0
        self.last: int | None = None
        """The write after which the process is killed."""
        self._is_ours = False

    @property
    def is_cut(self) -> bool:
        return self.writes == self.last

    def begin(self, last: int | None = None) -> None:
        self.writes, self.last = 0, last

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Let others call than the process."""
        self._is_ours = True
        yield
        self._is_ours = False

    def request(self) -> None:
        if self.is_cut and not self._is_ours:
            raise Unavailable("killed")

    def answer(self) -> None:
        self.writes += not self._is_ours
        self.request()


class Rest(NamedTuple):
    """What there is in the end."""

    secrets: dict[str, str]
    children: dict[str, str]
    shards: set[str]
    """Who holds its Lease."""
    configurations: set[str]
    ready: str


class Scene:
    """Three shards; one dies when a fourth one joins; and leaders one after another."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.line = Line()
        self._live = [A, B, C]
        self.cluster.guard(request=self.line.request, answer=self.line.answer)

    async def begin(self) -> None:
        cluster = self.cluster
        with self.line.aside():
            await cluster.add_namespace("default")
            await cluster.put_ring(cluster._demo)
            for shard in self._live:
                await cluster.join(shard)
            for number in range(OBJECTS):
                owner = await cluster.add(SECRETS, f"s{number}")
                await cluster.add(CONFIGMAPS, f"c{number}", controlled_by=owner)

    async def lead(self) -> Rest:
        """Let a new process lead until it is killed, or all is done."""
        self.cluster.cache = self.cluster.new_cache()
        async with asyncio.TaskGroup() as group:
            replica = Replica(self.cluster)
            process = [
                group.create_task(self.cluster.follow()),
                group.create_task(replica.leader.campaign(replica.changes.append)),
            ]
            if D not in self._live:
                await self._pass_time(PLACING)
            if not self.line.is_cut:
                await self._change()
                await self._pass_time(RESTING)
            for task in process:
                task.cancel()
            while not all(task.done() for task in process):
                await self._step()
        with self.line.aside():
            return await self._rest(replica)

    def robbed(self) -> list[str]:
        """The objects that were taken from a shard which works on, before it let them go."""
        changes = self.cluster.store(SECRETS).changes()
        moves = [
            (new.metadata.name, old.metadata.label(OWNER), new.metadata.label(OWNER))
            for old, new in changes
        ]
        return [name for name, old, new in moves if old in {A, B, D} and new not in {"", old}]

    async def _pass_time(self, steps: int) -> None:
        for _ in range(steps):
            if self.line.is_cut:
                return
            await self._step()

    async def _step(self) -> None:
        with self.line.aside():
            await self._work()
        await self.cluster.clock.advance(STEP)

    async def _work(self) -> None:
        for shard in self._live:
            await self.cluster.renew(shard)
        for obj in (await self.cluster.store(SECRETS).selecting(DRAIN).list()).items:
            if obj.metadata.label(OWNER) in self._live:
                await self.cluster.acknowledge(obj, SECRETS)

    async def _change(self) -> None:
        if D not in self._live:
            with self.line.aside():
                await self.cluster.join(D)
        self._live = [A, B, D]

    async def _rest(self, replica: Replica) -> Rest:
        leases = (await self.cluster.leases.selecting(RING_LABEL).list()).items
        ready = await replica.ready()
        return Rest(
            secrets=await self.cluster.owners(SECRETS),
            children=await self.cluster.owners(CONFIGMAPS),
            shards={
                lease.metadata.name
                for lease in leases
                if lease.spec.holder_identity == lease.metadata.name
            },
            configurations=set(self.cluster.configurations.bodies),
            ready="" if ready is None else ready.status,
        )


async def test_whenever_a_leader_is_killed_its_successor_comes_to_the_same_end() -> None:
    undisturbed = Scene()
    await undisturbed.begin()
    end = await undisturbed.lead()
    writes = undisturbed.line.writes

    ends: dict[int, Rest] = {}
    robbed: dict[int, list[str]] = {}
    for last in range(1, writes, 7 // share(7)):
        scene = Scene()
        await scene.begin()
        scene.line.begin(last)
        await scene.lead()
        scene.line.begin()
        ends[last] = await scene.lead()
        robbed[last] = scene.robbed()

    assert set(end.secrets.values()) == {A, B, D}
    assert end.children == {f"c{name[1:]}": owner for name, owner in end.secrets.items()}
    assert end.shards == {A, B, D}
    assert writes > 3 * OBJECTS
    assert {last: at for last, at in ends.items() if at != end} == {}
    assert {last: names for last, names in robbed.items() if names} == {}

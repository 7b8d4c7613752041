"""Two replicas that hand over one object leave none of its children behind.

The leader and a replica that stands in for it can see the shards differently for a moment.  Their
calls to the API server, and the acknowledgement of the shard, come in any order here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from random import Random
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharder.controllers.movement.handover.handover import Handover
from sharder.controllers.movement.waiting.orphans import UNSEEN_SECONDS
from sharder.controllers.scope import Part, ResourceKey
from sharder.core.api.meta import Json, PartialObject
from sharder.core.movement.desired import is_misdirected
from sharder.core.names import ShardName
from tests.support.cluster import Cluster
from tests.support.hooked_objects import Call
from tests.support.movement import SOON, resync
from tests.support.values import CONFIGMAPS, DEMO, DRAIN, OWNER, SECRETS, A, B, C

ACTORS = ("leader", "standby", "shard")
BURSTS: Final = 100
"""More than all make calls."""
ATTEMPTS: Final = 4
"""Of each replica; it can begin before the object is released."""
CHILDREN: Final = ("c0", "c1")
KEY: Final = ResourceKey(DEMO, SECRETS)
_actor: ContextVar[str] = ContextVar("actor")


class Gate:
    """Lets one call through at a time."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Event]] = {name: [] for name in ACTORS}

    async def hold(self, _: Call) -> None:
        """Wait for the turn of this call."""
        turn = asyncio.Event()
        self._waiting[_actor.get()].append(turn)
        await turn.wait()

    def let(self, name: str) -> None:
        """Let a call of an actor through, or of another one if this one makes none."""
        for each in (name, *ACTORS):
            if self._waiting[each]:
                self._waiting[each].pop(0).set()
                return


class Contested:
    """What the leader remembers of a released object, seconds before it goes elsewhere."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def wait(self, obj: PartialObject) -> float:
        """Return for how long it waits."""
        return UNSEEN_SECONDS if is_misdirected(self._cluster.snapshot, obj) else 0.0


@pytest.mark.slow
@settings(max_examples=400)
@given(
    to=st.sampled_from([None, A, B, C]),
    unseen=st.tuples(*[st.sampled_from([None, B, C])] * 2),
    does=st.sampled_from(["a pass", "hand-overs"]),
    seed=st.integers(0, 2**32),
)
def test_no_child_is_elsewhere_once_its_controller_has_a_shard(
    to: ShardName | None,
    unseen: tuple[ShardName | None, ...],
    does: str,
    seed: int,
) -> None:
    asyncio.run(Scene(to, does).play(unseen, list(_turns(Random(seed)))))


def _turns(rng: Random) -> Iterator[str]:
    """Yield who makes the next call: each makes several in a row."""
    for actor in rng.choices(ACTORS, k=BURSTS):
        yield from [actor] * rng.randint(1, 8)


class Scene:
    """An object that its shard releases, and two replicas."""

    def __init__(self, to: ShardName | None, does: str) -> None:
        """Drain the object `to` a shard; `does` is what the leader does."""
        self._to = to
        self._does = does
        self._leader, self._standby, self._gate = Cluster(), Cluster(), Gate()
        self._standby.objects = self._leader.objects

    async def play(self, unseen: tuple[ShardName | None, ...], turns: list[str]) -> None:
        """Let all actors make their calls in these turns."""
        leader, standby = self._leader, self._standby
        async with leader.watched(A, B, C), standby.watched(A, B, C):
            for cluster, shard in zip((leader, standby), unseen, strict=True):
                cluster.orphans.watch(KEY, Contested(cluster))
                if shard is not None:
                    await cluster.delete_lease(shard)
                await cluster.settle()
            secret = await leader.add(SECRETS, "s", owner=A, draining=True, to=self._to)
            for child in CHILDREN:
                await leader.add(CONFIGMAPS, child, owner=A, controlled_by=secret)
            leader.objects.before.append(self._gate.hold)
            actors = {
                "leader": self._pass if self._does == "a pass" else self._lead,
                "standby": self._stand_by,
                "shard": lambda: self._acknowledge(secret),
            }
            async with asyncio.TaskGroup() as group:
                running = {group.create_task(_as(name, act)) for name, act in actors.items()}
                for turn in turns:
                    await leader.settle()
                    await self._expect_together()
                    self._gate.let(turn)
                await leader.settle()
                assert all(task.done() for task in running)
            leader.objects.before.clear()
            await self._expect_together()

    async def _pass(self) -> None:
        await resync(self._leader).reconcile(DEMO)

    async def _lead(self) -> None:
        await _hand_over(self._leader, takes=True)

    async def _stand_by(self) -> None:
        await _hand_over(self._standby, takes=False)

    async def _acknowledge(self, secret: PartialObject) -> None:
        resource = await self._leader.objects.find(SECRETS)
        body: Json = {"metadata": {"labels": {OWNER: None, DRAIN: None}}}
        await self._leader.objects.of(resource).patch(secret.metadata.ref, body)

    async def _expect_together(self) -> None:
        owner = (await self._leader.owners(SECRETS))["s"].rstrip("*")
        if owner:
            assert set((await self._leader.owners(CONFIGMAPS)).values()) == {owner}


async def _as(actor: str, act: Callable[[], Awaitable[None]]) -> None:
    _actor.set(actor)
    await act()


async def _hand_over(cluster: Cluster, *, takes: bool) -> None:
    mover = cluster.mover()
    mover.takes = takes
    handover = Handover(
        cache=cluster.cache,
        objects=cluster.objects,
        mover=mover,
        failures=cluster.failures,
        on_fault=lambda _ring, _fault: None,
        pending=cluster.pending,
        locks=cluster.locks,
        rng=cluster.rng,
    )
    (secret,) = (await cluster.store(SECRETS).list()).items
    for _ in range(ATTEMPTS):
        cluster.pending.add_released(KEY, {secret.metadata.ref: A})
        await cluster.clock.advance(SOON)
        await handover.carry_over(Part(KEY, "default"))

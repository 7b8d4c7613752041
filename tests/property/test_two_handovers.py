"""Two replicas that hand over one object to different shards leave none of its children behind.

The leader and a replica that stands in for it can see the shards differently for a moment.  Their
calls to the API server come in any order here.
"""

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from itertools import count
from random import Random
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharder.controllers.movement.handover.owner_transfer import OwnerTransfer
from sharder.controllers.movement.waiting.pending import UNKNOWN
from sharder.controllers.movement.writes.mover import Mover
from sharder.core.names import ShardName
from tests.support.cluster import Call, Cluster
from tests.support.values import CONFIGMAPS, SECRETS, A, B, C

LEADER, STANDBY = REPLICAS = ("leader", "standby")
CALLS: Final = 60
"""More than both make."""
CHILDREN: Final = ("c0", "c1")
_replica: ContextVar[str] = ContextVar("replica")


class Gate:
    """Lets one call through at a time."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Event]] = {name: [] for name in REPLICAS}

    async def hold(self, _: Call) -> None:
        """Wait for the turn of this call."""
        turn = asyncio.Event()
        self._waiting[_replica.get()].append(turn)
        await turn.wait()

    def let(self, name: str) -> None:
        """Let a call of a replica through, or of the other one if this one makes none."""
        for each in (name, *REPLICAS):
            if self._waiting[each]:
                self._waiting[each].pop(0).set()
                return


@pytest.mark.slow
@settings(max_examples=250)
# A list of drawn turns would favour one replica most often.
@given(st.sampled_from(REPLICAS), st.integers(0, 12), st.integers(0, 2**32))
def test_no_child_is_elsewhere_once_its_controller_has_a_shard(
    first: str, ahead: int, seed: int
) -> None:
    turns = [first] * ahead + Random(seed).choices(REPLICAS, k=CALLS)
    asyncio.run(_hand_over_twice(turns))


async def _hand_over_twice(turns: Sequence[str]) -> None:
    cluster, other, gate = Cluster(), Cluster(), Gate()
    other.objects = cluster.objects
    async with cluster.watched(A, B, C), other.watched(A, B, C):
        # One has seen that a Lease was deleted, and not yet that it is back; the other has not.
        await cluster.delete_lease(C)
        await other.delete_lease(B)
        await cluster.settle()
        await other.settle()
        name = _wanted_elsewhere(cluster, other)
        secret = await cluster.add(SECRETS, name)
        for child in CHILDREN:
            await cluster.add(CONFIGMAPS, child, owner=A, controlled_by=secret)
        cluster.objects.before.append(gate.hold)
        async with asyncio.TaskGroup() as group:
            running = {
                group.create_task(_transfer(LEADER, cluster, cluster.mover(), name)),
                group.create_task(_transfer(STANDBY, other, _standing_by(other), name)),
            }
            for turn in turns:
                await cluster.settle()
                await _expect_together(cluster, name)
                gate.let(turn)
            await cluster.settle()
            assert all(task.done() for task in running)
        cluster.objects.before.clear()
        await _expect_together(cluster, name)
        assert (await cluster.owners(SECRETS))[name] in {B, C, ""}


def _wanted_elsewhere(cluster: Cluster, other: Cluster) -> str:
    """Return the name of a Secret that both replicas want to move, to different shards."""
    keys = ((f"object-{number}", f"/Secret/default/object-{number}") for number in count())
    rings = cluster.snapshot, other.snapshot
    return next(name for name, key in keys if [ring.wanted(key) for ring in rings] == [B, C])


async def _transfer(replica: str, cluster: Cluster, mover: Mover, name: str) -> None:
    _replica.set(replica)
    resource = await cluster.objects.find(SECRETS)
    store = cluster.objects.of(resource)
    found = (await store.list(lambda obj: obj.metadata.name == name)).items
    transfer = OwnerTransfer(
        cluster.snapshot, objects=cluster.objects, mover=mover, failures=cluster.failures
    )
    released = [obj for obj in found if cluster.snapshot.owner_of(obj) is None]
    shard = A if mover.takes else UNKNOWN
    await transfer.run(resource, released, {obj.metadata.ref: shard for obj in released})


def _standing_by(cluster: Cluster) -> Mover:
    mover = cluster.mover()
    mover.takes = False
    return mover


async def _expect_together(cluster: Cluster, name: str) -> None:
    owner = ShardName((await cluster.owners(SECRETS))[name])
    if owner:
        assert set((await cluster.owners(CONFIGMAPS)).values()) == {owner}

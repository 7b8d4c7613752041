"""Facts about a whole replica when one namespace cannot be read or written."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import pytest
from msgspec import structs

from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import Condition, ControllerRing, PlacementSpec, StrategyName
from sharder.core.errors import Expired, Forbidden, Rejected, Unavailable
from sharder.core.names import ObjectRef
from sharder.core.status.conditions import COVERED, READY, UNCOUNTED, UNREADABLE, condition_of
from sharder.core.status.status import COUNTS_SECONDS
from tests.support.cluster import Cluster
from tests.support.counting import counted
from tests.support.hooked_objects import Call, Hook
from tests.support.replica import Replica
from tests.support.values import CONFIGMAPS, DEMO, DRAIN, OWNER, SECRETS, WIDGETS, A, B, C, ring

FINE, BROKEN = "default", "broken"
OBJECTS: Final = 12
"""In each namespace; more than are written at once."""
SOON: Final = 10.0
"""Longer than the back-off of a part."""

Fault = Callable[[Cluster], Hook]


def on_lists(error: Exception, *, after: float = 0.0) -> Fault:
    """Return a fault: each list or watch fails `after` seconds."""

    def fault(cluster: Cluster) -> Hook:
        async def hook(call: Call) -> None:
            if call.namespace == BROKEN and call.verb in {"list", "stream", "watch"}:
                await cluster.clock.sleep(after)
                raise error

        return hook

    return fault


def on_pages(error: Exception) -> Fault:
    """Return a fault: each list fails halfway."""

    def fault(_: Cluster) -> Hook:
        async def hook(call: Call) -> None:
            is_halfway = call.ref is not None and call.ref.name.endswith("7")
            if call.verb == "next" and call.namespace == BROKEN and is_halfway:
                raise error

        return hook

    return fault


def on_writes(error: Exception, *, after: float = 0.0) -> Fault:
    """Return a fault: each write fails `after` seconds."""

    def fault(cluster: Cluster) -> Hook:
        async def hook(call: Call) -> None:
            if call.namespace == BROKEN and call.verb == "patch":
                await cluster.clock.sleep(after)
                raise error

        return hook

    return fault


READS = {
    "forbidden": on_lists(Forbidden("no")),
    "times out": on_lists(Unavailable("no answer in time"), after=30.0),
    "undecodable": on_lists(Unavailable("the response is not from an API server")),
    "expires": on_pages(Expired("too old")),
}
WRITES = {
    "rejected": on_writes(Rejected("exceeded quota")),
    "times out": on_writes(Unavailable("the webhook did not answer"), after=10.0),
}
STRATEGIES = (StrategyName.CONSISTENT_HASH, StrategyName.LEAST_LOADED)


def placed_by(strategy: StrategyName) -> ControllerRing:
    spec = structs.replace(ring().spec, placement=PlacementSpec(strategy=strategy))
    return ControllerRing(metadata=ring().metadata, spec=spec)


class Play:
    """A ring with a leader, two shards and objects in two namespaces."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def left(self, namespace: str, shard: str = A) -> int:
        """Return how many objects of the namespace are on the shard, children included."""
        found = 0
        for resource in (WIDGETS, SECRETS, CONFIGMAPS):
            for obj in (await self.cluster.store(resource).list()).items:
                found += obj.metadata.namespace == namespace and obj.metadata.label(OWNER) == shard
        return found

    async def acknowledge(self, namespace: str) -> int:
        """Let the shard release all draining parents of a namespace; return how many."""
        draining = [obj for obj in await self.parents(namespace) if obj.metadata.has_label(DRAIN)]
        for obj in draining:
            await self.cluster.acknowledge(obj, SECRETS)
        return len(draining)

    async def draining(self, namespace: str) -> int:
        """Return how many parents of the namespace are draining."""
        return sum(obj.metadata.has_label(DRAIN) for obj in await self.parents(namespace))

    async def without_owner(self, namespace: str) -> int:
        """Return how many parents of the namespace have no owner."""
        return sum(not obj.metadata.has_label(OWNER) for obj in await self.parents(namespace))

    async def parents(self, namespace: str) -> list[PartialObject]:
        """Return the parents in the namespace."""
        found = (await self.cluster.store(SECRETS).list()).items
        return [obj for obj in found if obj.metadata.namespace == namespace]

    async def condition(self, kind: str = COVERED) -> Condition:
        status = (await self.cluster.rings.get(ObjectRef("", DEMO))).status
        found = condition_of(status, kind)
        assert found is not None
        return found

    async def statuses(self, seconds: int) -> set[str]:
        """Return the statuses of Covered during these seconds."""
        found = set[str]()
        for _ in range(seconds):
            await self.cluster.clock.advance(1)
            found.add((await self.condition()).status)
        return found


@asynccontextmanager
async def playing(strategy: StrategyName) -> AsyncIterator[Play]:
    """Yield a ring whose objects are all on the shard A, with the shard B ready to take them."""
    cluster = Cluster(placed_by(strategy))
    await cluster.add_namespace(BROKEN)
    counting = cluster.watched(A, seconds=3600)
    if strategy is not StrategyName.CONSISTENT_HASH:
        counting = counted(cluster, A)
    async with counting, Replica(cluster).running():
        for namespace in (FINE, BROKEN):
            for number in range(OBJECTS):
                await cluster.add(WIDGETS, f"w{number}", owner=A, namespace=namespace)
                parent = await cluster.add(SECRETS, f"s{number}", owner=A, namespace=namespace)
                await cluster.add(
                    CONFIGMAPS, f"c{number}", owner=A, namespace=namespace, controlled_by=parent
                )
        await cluster.clock.advance(60)
        yield Play(cluster)


async def die(cluster: Cluster) -> None:
    """Let the shard A end, after B has joined."""
    await cluster.join(B, seconds=3600)
    await cluster.leave(A)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("fault", READS)
async def test_a_namespace_that_cannot_be_read_keeps_no_other_one_back(
    fault: str, strategy: StrategyName
) -> None:
    async with playing(strategy) as play:
        hook = READS[fault](play.cluster)
        play.cluster.objects.before.append(hook)
        await die(play.cluster)
        await play.cluster.clock.advance(1)
        rescued = await play.left(FINE), await play.left(BROKEN)
        await play.cluster.clock.advance(COUNTS_SECONDS)
        at_first = await play.statuses(60)
        covered, ready = await play.condition(), await play.condition(READY)
        meanwhile = await play.statuses(60)
        play.cluster.objects.before.remove(hook)
        await play.cluster.clock.advance(30 + SOON)  # a list that hangs ends first
        returned = await play.left(BROKEN)
        await play.cluster.clock.advance(30)
        after = await play.condition()

    assert rescued[0] == 0
    assert rescued[1] > 0
    assert "True" not in at_first
    assert (covered.status, covered.reason) == ("Unknown", UNCOUNTED)
    assert f"secrets in {BROKEN}, widgets.example.com in {BROKEN}" in covered.message
    assert (ready.reason == UNREADABLE) is (fault != "expires")
    assert meanwhile == {"Unknown"}
    assert returned == 0
    assert after.status == "True"


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("fault", WRITES)
async def test_a_namespace_that_rejects_every_write_keeps_no_other_one_back(
    fault: str, strategy: StrategyName
) -> None:
    async with playing(strategy) as play:
        hook = WRITES[fault](play.cluster)
        play.cluster.objects.before.append(hook)
        await die(play.cluster)
        await play.cluster.clock.advance(1)
        rescued = await play.left(FINE)
        await play.cluster.clock.advance(30)
        before = len(play.cluster.objects.calls)
        meanwhile = await play.statuses(60)
        tried = [call for call in play.cluster.objects.calls[before:] if call.verb == "patch"]
        play.cluster.objects.before.remove(hook)
        await play.cluster.clock.advance(90)
        returned = await play.left(BROKEN)
        await play.cluster.clock.advance(30)
        after = await play.condition()

    assert rescued == 0
    assert meanwhile == {"False"}
    assert len(tried) <= 4 * OBJECTS
    assert returned == 0
    assert after.status == "True"


@pytest.mark.parametrize("fault", READS)
async def test_what_is_released_elsewhere_is_handed_over_meanwhile(fault: str) -> None:
    async with playing(StrategyName.CONSISTENT_HASH) as play:
        cluster = play.cluster
        await cluster.join(B, seconds=3600)
        await cluster.clock.advance(1)
        cluster.objects.before.append(READS[fault](cluster))
        released = await play.acknowledge(BROKEN)
        await cluster.clock.advance(1)
        before = await play.without_owner(BROKEN)
        released += await play.acknowledge(FINE)
        await cluster.clock.advance(1)
        meanwhile = await play.without_owner(FINE)

    assert released > before > 0
    assert meanwhile == 0


async def test_a_list_that_hangs_delays_one_pass_and_no_later_one() -> None:
    async with playing(StrategyName.CONSISTENT_HASH) as play:
        cluster = play.cluster
        cluster.objects.before.append(READS["times out"](cluster))
        await cluster.join(B, seconds=3600)
        await cluster.clock.advance(40)
        first = await play.draining(FINE)
        await cluster.join(C, seconds=3600)
        await cluster.clock.advance(1)
        second = await play.draining(FINE)

    assert 0 < first < second

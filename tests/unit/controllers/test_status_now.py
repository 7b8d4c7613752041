"""The status of a ring follows its objects as they move, whatever its strategy."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import pytest

from sharder.core.api.meta import Json, PartialObject
from sharder.core.api.ring import ControllerRing, PlacementSpec, RingStatus, StrategyName
from sharder.core.names import EVACUATE_ANNOTATION, ObjectRef, ShardName
from sharder.core.status.status import COUNTS_SECONDS
from tests.support.cluster import Cluster
from tests.support.counting import counted
from tests.support.replica import Replica
from tests.support.values import DEMO, SECRETS, WIDGETS, A, B, named, ring

SOON = 2.0
"""Seconds after which a movement is in the status."""

MAIN = (WIDGETS, SECRETS)

pytestmark = pytest.mark.parametrize("sticks", [False, True], ids=["follows", "sticks"])


def spread() -> ControllerRing:
    """The ring `demo` with a strategy that leaves objects where they are."""
    placement = PlacementSpec(strategy=StrategyName.SPREAD)
    spec = msgspec.structs.replace(ring().spec, placement=placement)
    changed: ControllerRing = msgspec.structs.replace(ring(), spec=spec)
    return changed


@asynccontextmanager
async def leading(*, sticks: bool) -> AsyncIterator[tuple[Cluster, list[PartialObject]]]:
    """Lead a ring with an object of each main resource on the shard b."""
    cluster = Cluster(spread()) if sticks else Cluster()
    async with AsyncExitStack() as stack:
        watched = counted(cluster, A, B) if sticks else cluster.watched(A, B, seconds=3600)
        await stack.enter_async_context(watched)
        objects = []
        for resource in MAIN:
            name = "object" if sticks else named(resource, B, cluster.snapshot)
            objects.append(await cluster.add(resource, name, owner=B))
        await cluster.settle()
        _ = await stack.enter_async_context(Replica(cluster).running())
        await cluster.clock.advance(COUNTS_SECONDS + SOON)
        yield cluster, objects


async def status_of(cluster: Cluster) -> RingStatus:
    await cluster.clock.advance(SOON)
    return (await cluster.rings.get(ObjectRef("", DEMO))).status


def loads(status: RingStatus) -> dict[str, int | None]:
    return {shard.name: shard.objects for shard in status.shard_statuses}


async def evacuate(cluster: Cluster, shard: ShardName) -> None:
    body: Json = {"metadata": {"annotations": {EVACUATE_ANNOTATION: "true"}}}
    await cluster.leases.patch(ObjectRef("default", shard), body)


async def test_drains_and_acknowledgements_are_in_the_status_within_two_seconds(
    sticks: bool,
) -> None:
    async with leading(sticks=sticks) as (cluster, objects):
        before = await status_of(cluster)
        await evacuate(cluster, B)
        draining = await status_of(cluster)
        await cluster.acknowledge(objects[0], WIDGETS)
        half = await status_of(cluster)
        await cluster.acknowledge(objects[1], SECRETS)
        after = await status_of(cluster)

    assert [loads(s) for s in (before, half, after)] == [{A: 0, B: 2}, {A: 1, B: 1}, {A: 2, B: 0}]
    assert [s.draining for s in (before, draining, half, after)] == [0, 2, 1, 0]
    assert after.objects == 2


async def test_the_objects_of_a_shard_that_left_are_in_the_status_within_two_seconds(
    sticks: bool,
) -> None:
    async with leading(sticks=sticks) as (cluster, _):
        await cluster.leave(B)
        after = await status_of(cluster)

    assert (loads(after)[A], after.unowned) == (2, 0)


async def test_a_lost_owner_is_in_the_status_as_long_as_nothing_can_be_done(
    sticks: bool,
) -> None:
    async with leading(sticks=sticks) as (cluster, _):
        for shard in (A, B):
            await cluster.leave(shard)
        after = await status_of(cluster)

    assert (after.unowned, after.unassigned) == (2, 0)


async def test_a_quiet_ring_is_neither_listed_nor_written(sticks: bool) -> None:
    async with leading(sticks=sticks) as (cluster, _):
        await cluster.clock.advance(10)
        calls, version = len(cluster.objects.calls), await _version(cluster)
        await cluster.clock.advance(120)

        assert len(cluster.objects.calls) == calls
        assert await _version(cluster) == version


async def _version(cluster: Cluster) -> str:
    return (await cluster.rings.get(ObjectRef("", DEMO))).metadata.resource_version

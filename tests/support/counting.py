"""A small cluster in memory whose ring has a strategy that sticks, and the tally that it needs."""

from asyncio import TaskGroup
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from sharder.controllers.counting.tallies import Tallies
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import ControllerRing, GroupBy, PlacementSpec, RingSpec, StrategyName
from sharder.core.names import ShardName
from sharder.core.placement.counting.tally import Tally
from sharder.core.ring.snapshot import RingSnapshot
from tests.support.cluster import Cluster
from tests.support.values import ring


def bounded(
    capacity: int | None = None, *, generation: int = 1, group_by: GroupBy | None = None
) -> ControllerRing:
    """The ring `demo` with the strategy BoundedLoad."""
    placement = PlacementSpec(
        strategy=StrategyName.BOUNDED_LOAD,
        per_shard_capacity=capacity,
        group_by=group_by or GroupBy(),
    )
    spec: RingSpec = msgspec.structs.replace(ring().spec, placement=placement)
    return ControllerRing(metadata=ring(generation=generation).metadata, spec=spec)


@asynccontextmanager
async def counted(
    cluster: Cluster, *shards: ShardName, seen: list[PartialObject] | None = None
) -> AsyncIterator[None]:
    """Let the cache follow and the tallies count; `seen` gets every object that is counted."""
    shown = [] if seen is None else seen

    def observe(_: RingSnapshot, obj: PartialObject) -> None:
        shown.append(obj)

    tallies = Tallies(
        cache=cluster.cache,
        objects=cluster.objects,
        observe=observe,
        clock=cluster.clock,
        rng=cluster.rng,
    )
    async with cluster.watched(*shards, seconds=3600), TaskGroup() as group:
        with cluster.cache.subscribed(tallies.subscriber()):
            task = group.create_task(tallies.run())
            await cluster.settle()
            try:
                yield
            finally:
                task.cancel()


def tally_of(cluster: Cluster) -> Tally:
    """Return the tally of the ring `demo`."""
    tally = cluster.snapshot.tally
    assert tally is not None
    return tally

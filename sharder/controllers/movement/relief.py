"""Ask shards that have too many objects to let go of those that are drawn to them least."""

from functools import partial

from sharder.api.meta import PartialObject
from sharder.api.resource import Resource
from sharder.api.ring import RingResource
from sharder.choosing import excess_of
from sharder.controllers.movement.batch import batch
from sharder.controllers.movement.rights import naming_the_rule
from sharder.controllers.movement.sweep import Sweep
from sharder.names import ShardName
from sharder.placement.displacement import Displaced
from sharder.planner import hold_of, plan_displaced
from sharder.snapshot import RingSnapshot


class Relief:
    """The part of a pass that undoes what is above a ceiling."""

    def __init__(self, snapshot: RingSnapshot, sweep: Sweep, *, limit: int) -> None:
        """`limit` bounds the writes under way at once."""
        self._snapshot = snapshot
        self._sweep = sweep
        self._limit = limit

    async def run(self) -> None:
        """Relieve one shard after the other."""
        for shard, excess in excess_of(self._snapshot).items():
            await self._relieve(shard, excess)

    async def _relieve(self, shard: ShardName, excess: int) -> None:
        displaced = Displaced[tuple[Resource, PartialObject]](excess)
        for main in self._snapshot.resources:
            await self._sweep.noting(main.id, self._offer(main, shard, displaced))
        decide = partial(plan_displaced, self._snapshot, shard=shard)
        async with batch(self._limit) as writes:
            for resource, obj in displaced.items():
                await writes.add(self._sweep.move(resource, obj, decide))

    async def _offer(
        self,
        main: RingResource,
        shard: ShardName,
        displaced: Displaced[tuple[Resource, PartialObject]],
    ) -> None:
        """Consider what the shard has of a resource; what leaves it anyhow relieves it no more."""
        resource = await self._sweep.find(main.id)
        with naming_the_rule(resource.id):
            async for obj in self._sweep.stream(resource, f"{self._snapshot.owner_label}={shard}"):
                if self._snapshot.selects(obj) and self._snapshot.entry_of(obj).stays:
                    displaced.offer(hold_of(self._snapshot, obj, shard), (resource, obj))

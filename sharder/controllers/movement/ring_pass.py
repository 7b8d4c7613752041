"""One pass over parts of a ring, decided from one snapshot; each part runs for itself.

First rescue objects without a working shard, then drain full shards, then follow the placement.
"""

from collections.abc import Awaitable, Callable, Collection
from contextlib import aclosing
from functools import partial
from typing import Final

from sharder.controllers.counting.unread_parts import Unreadable, UnreadParts
from sharder.controllers.movement.part_pass import PartPass
from sharder.controllers.movement.pass_context import PassContext
from sharder.controllers.scope import ListScope, Part, ResourceKey
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import RingResource
from sharder.core.movement.desired import excess_of
from sharder.core.movement.planner import keep_priority_of, plan_displaced
from sharder.core.names import ShardName
from sharder.core.placement.ranking import LowestPriorities
from sharder.runtime.task_pool import batch

CONCURRENT_PARTS: Final = 8
"""Parts of a pass that are listed at the same time: each holds a page of up to 8 MB."""


class RingPass:
    """A pass over some parts of a ring, or over all."""

    def __init__(self, context: PassContext) -> None:
        self._context = context
        self._snapshot = context.snapshot
        self._mover = context.mover

    async def run(
        self,
        main: Collection[RingResource],
        list_scope: ListScope,
        *,
        skips: UnreadParts | tuple[()] = (),
        drains_excess: bool = False,
    ) -> list[PartPass]:
        """Rescue orphaned objects, then drain full shards, then follow the placement.

        Args:
            main: The main resources of the parts.
            list_scope: The namespaces of the requests that contain all objects of the pass.
            skips: The parts that are left out.
            drains_excess: Whether to drain full shards.

        Returns:
            The parts that were read.

        Raises:
            Superseded: we lost leadership, or the ring has changed.
        """
        self._mover.check(self._snapshot)
        parts = list[PartPass]()
        for resource in main:
            parts += await self._parts(resource, list_scope, skips)
        await self._each(parts, PartPass.rescue)
        if drains_excess:
            await self._drain_excess(parts)
        await self._each(parts, PartPass.follow)
        return [part for part in parts if part.part not in self._context.unread]

    async def _parts(
        self, main: RingResource, list_scope: ListScope, skips: UnreadParts | tuple[()]
    ) -> list[PartPass]:
        whole = Part(ResourceKey(self._snapshot.name, main.id))
        if whole in skips:
            return []
        try:
            resource = await self._context.find(main.id)
        except Unreadable as error:
            self._context.unread[whole] = error
            return []
        scopes = [(each,) for each in list_scope] if resource.namespaced else [list_scope]
        parts = [PartPass(self._context, main, resource, scope) for scope in scopes]
        return [part for part in parts if part.part not in skips]

    async def _each(
        self, parts: Collection[PartPass], work: Callable[[PartPass], Awaitable[None]]
    ) -> None:
        """Run `work` on each part that could be read so far."""

        async def noting(part: PartPass) -> None:
            try:
                await work(part)
            except Unreadable as error:
                self._context.unread[part.part] = error

        async with batch(CONCURRENT_PARTS) as running:
            for part in parts:
                if part.part not in self._context.unread:
                    await running.add(noting(part))

    async def _drain_excess(self, parts: Collection[PartPass]) -> None:
        """Drain the objects above a ceiling, one shard after the other."""
        for shard, excess in excess_of(self._snapshot).items():
            displaced = LowestPriorities[tuple[Resource, PartialObject]](excess)
            await self._each(parts, partial(self._offer, shard, displaced))
            decide = partial(plan_displaced, shard=shard)
            async with batch(self._mover.limit) as writes:
                for resource, obj in displaced.items():
                    await writes.add(self._context.move(resource, obj, decide))

    async def _offer(
        self,
        shard: ShardName,
        displaced: LowestPriorities[tuple[Resource, PartialObject]],
        part: PartPass,
    ) -> None:
        """Offer the shard's objects of a part, except objects that leave the shard anyway."""
        labels = f"{self._snapshot.owner_label}={shard}"
        async with aclosing(part.stream(part.resource, labels)) as found:
            async for obj in found:
                if self._snapshot.selects(obj) and self._snapshot.entry_of(obj).stays:
                    priority = keep_priority_of(self._snapshot, obj, shard)
                    displaced.offer(priority, (part.resource, obj))

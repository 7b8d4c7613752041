"""One pass over parts of a ring, decided from one snapshot; each part runs for itself.

First rescue objects without a working shard, then drain full shards, then follow the placement.
"""

from collections.abc import Awaitable, Callable, Collection
from contextlib import aclosing
from functools import partial
from typing import Final

from sharder.controllers.counting.unread_parts import Unreadable
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

    def __init__(
        self,
        context: PassContext,
        *,
        list_scope: ListScope,
        leaves_out: Callable[[Part], bool],
    ) -> None:
        """Begin with nothing read.

        Args:
            context: What all parts share.
            list_scope: The namespaces of the requests that contain all objects of the pass.
            leaves_out: Returns whether a part is left out.
        """
        self.unread = dict[Part, Unreadable]()
        """The parts that could not be read."""
        self.read = list[PartPass]()
        """The parts that were read, at the end."""
        self._context = context
        self._snapshot = context.snapshot
        self._mover = context.mover
        self._list_scope = list_scope
        self._leaves_out = leaves_out

    async def run(self, main: Collection[RingResource], *, drains_excess: bool = False) -> None:
        """Rescue orphaned objects, then drain full shards, then follow the placement.

        Raises:
            Superseded: we lost leadership, or the ring has changed.
        """
        self._mover.check(self._snapshot)
        parts = await self._parts(main)
        await self._each(parts, PartPass.rescue)
        if drains_excess:
            await self._drain_excess(parts)
        await self._each(parts, PartPass.follow)
        self.read = [part for part in parts if part.part not in self.unread]
        for part in parts:
            self.unread |= part.missing

    async def _parts(self, main: Collection[RingResource]) -> list[PartPass]:
        parts = list[PartPass]()
        for ring_resource in main:
            part = Part(ResourceKey(self._snapshot.name, ring_resource.id))
            if self._leaves_out(part):
                continue
            try:
                resource = await self._context.find(ring_resource.id)
            except Unreadable as error:
                self.unread[part] = error
                continue
            each = [(namespace,) for namespace in self._list_scope]
            for scope in each if resource.namespaced else [self._list_scope]:
                found = PartPass(self._context, ring_resource, resource, scope)
                parts += [] if self._leaves_out(found.part) else [found]
        return parts

    async def _each(
        self, parts: Collection[PartPass], work: Callable[[PartPass], Awaitable[None]]
    ) -> None:
        """Run `work` on each part that could be read so far."""

        async def noting(part: PartPass) -> None:
            try:
                await work(part)
            except Unreadable as error:
                self.unread[part.part] = error

        async with batch(CONCURRENT_PARTS) as running:
            for part in parts:
                if part.part not in self.unread:
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

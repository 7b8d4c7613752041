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
from sharder.core.ring.snapshot import RingSnapshot
from sharder.runtime.task_pool import batch

CONCURRENT_PARTS: Final = 8
"""Parts of a pass that are listed at the same time: each holds a page of up to 8 MB."""


async def pass_over(
    context: PassContext,
    main: Collection[RingResource],
    list_scope: ListScope,
    *,
    skips: UnreadParts | tuple[()] = (),
    drains_excess: bool = False,
) -> list[PartPass]:
    """Rescue orphaned objects, then drain full shards, then follow the placement.

    Args:
        context: What all parts share.
        main: The main resources of the parts.
        list_scope: The namespaces of the requests that contain all objects of the pass.
        skips: The parts that are left out.
        drains_excess: Whether to drain full shards.

    Returns:
        The parts that were read.

    Raises:
        Superseded: we lost leadership, or the ring has changed.
    """
    context.mover.check(context.snapshot)
    parts = list[PartPass]()
    for resource in main:
        found = await _parts(context, resource, list_scope, skips)
        parts += [part for part in found if part.part not in skips]
    await _each(context, parts, PartPass.rescue)
    if drains_excess:
        await _drain_excess(context, parts)
    await _each(context, parts, PartPass.follow)
    return [part for part in parts if part.part not in context.unread]


async def _parts(
    context: PassContext,
    main: RingResource,
    list_scope: ListScope,
    skips: UnreadParts | tuple[()],
) -> list[PartPass]:
    whole = Part(ResourceKey(context.snapshot.name, main.id))
    if whole in skips:
        return []
    try:
        resource = await context.find(main.id)
    except Unreadable as error:
        context.unread[whole] = error
        return []
    scopes = [(each,) for each in list_scope] if resource.namespaced else [list_scope]
    return [PartPass(context, main, resource, scope) for scope in scopes]


async def _each(
    context: PassContext,
    parts: Collection[PartPass],
    work: Callable[[PartPass], Awaitable[None]],
) -> None:
    """Run `work` on each part that could be read so far."""

    async def noting(part: PartPass) -> None:
        try:
            await work(part)
        except Unreadable as error:
            context.unread[part.part] = error

    async with batch(CONCURRENT_PARTS) as running:
        for part in parts:
            if part.part not in context.unread:
                await running.add(noting(part))


async def _drain_excess(context: PassContext, parts: Collection[PartPass]) -> None:
    """Drain the objects above a ceiling, one shard after the other."""
    snapshot = context.snapshot
    for shard, excess in excess_of(snapshot).items():
        displaced = LowestPriorities[tuple[Resource, PartialObject]](excess)
        await _each(context, parts, partial(_offer, snapshot, shard, displaced))
        decide = partial(plan_displaced, shard=shard)
        async with batch(context.mover.limit) as writes:
            for resource, obj in displaced.items():
                await writes.add(context.move(resource, obj, decide))


async def _offer(
    snapshot: RingSnapshot,
    shard: ShardName,
    displaced: LowestPriorities[tuple[Resource, PartialObject]],
    part: PartPass,
) -> None:
    """Offer the shard's objects of a part, except objects that leave the shard anyway."""
    async with aclosing(part.stream(part.resource, f"{snapshot.owner_label}={shard}")) as found:
        async for obj in found:
            if snapshot.selects(obj) and snapshot.entry_of(obj).stays:
                priority = keep_priority_of(snapshot, obj, shard)
                displaced.offer(priority, (part.resource, obj))

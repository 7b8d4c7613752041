"""One pass over all objects of a ring, decided from one snapshot.

First rescue objects without a working shard, then drain full shards, then follow the placement.
Memory does not grow with the number of objects: main objects are remembered only if they wait for
a drain and control others (docs/protocol.md, "Moving objects").
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from sharder.controllers.movement.resync.resync_lists import ExcessDrainer, ResyncLists
from sharder.controllers.movement.writes.failures import BACKOFF
from sharder.controllers.movement.writes.mover import Mover
from sharder.controllers.permissions import naming_the_rule
from sharder.controllers.scope import ObjectKey, ResourceKey
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import RingResource
from sharder.core.errors import NotFound
from sharder.core.movement.desired import is_misdirected
from sharder.core.movement.planner import (
    Owners,
    Reservations,
    plan_controlled,
    plan_main,
    plan_owned,
)
from sharder.core.movement.step import Assign, Keep, Step
from sharder.core.names import GroupResource
from sharder.core.ring.snapshot import RingSnapshot, Role

NAMESPACES = GroupResource("", "namespaces")
"""Each object of this resource is its own namespace."""

ELSEWHERE: Final = Keep("what it controls in other namespaces moves first")
RELEASED: Final = Keep("its shard has just released it; its controlled objects move first")
NOT_LISTED: Final = Keep("it was released, or got room, after its controlled objects were listed")
LOST: Final = Keep("its last owner may still be working on it")
LEFT_BEHIND: Final = Keep("its controlled objects could not be moved yet")
CLAIMED: Final = Keep("its controlled objects move to another shard")


class ResyncPass:
    """One pass over a ring's objects, all decided from one snapshot."""

    def __init__(self, snapshot: RingSnapshot, lists: ResyncLists, *, mover: Mover) -> None:
        """`lists` reads and moves the objects, and collects the results."""
        self._snapshot = snapshot
        self._lists = lists
        self._reservations = Reservations(snapshot)
        self._excess_drainer = ExcessDrainer(snapshot, self._lists, limit=mover.limit)
        self._mover = mover
        self._has_lost = False
        """Whether a leading object just lost its owner label.  Its dependents have not moved, so
        this pass assigns no unassigned leading object: the hand-over assigns them."""
        self._added: frozenset[str] | None = None
        """The added namespaces, None for a pass over all namespaces."""
        self._takes = False
        """Whether leading objects are taken from shards that are gone: only then objects are
        recalled."""
        names = ",".join(sorted(snapshot.members.available))
        self._stranded = f"{snapshot.owner_label} notin ({names})"
        self._settled = f"{snapshot.owner_label} in ({names})"
        # In a counted ring only these objects might have to move: objects without a working shard,
        # draining and pinned objects, and objects of evacuating shards.
        asked = [f"{self._settled},{key}" for key in (snapshot.drain_label, snapshot.pin_label)]
        if evacuating := sorted(snapshot.placer.layout.evacuating):
            asked.append(f"{snapshot.owner_label} in ({','.join(evacuating)})")
        sticks = snapshot.tally is not None
        self._following = asked if sticks else [self._settled]
        # With this order, an object that is released between two lists is in the second list.
        self._displacing = [*asked, self._stranded] if sticks else [""]

    async def run(self, lock: asyncio.Lock) -> None:
        """Rescue orphaned objects, then drain full shards, then follow the placement.

        Deferred drains are retried at the end, for a short time.  `lock` blocks the hand-over
        while owners and their dependents are moved.
        """
        await self._run(lock, self._snapshot.resources, self._excess_drainer.run)

    async def run_over_arrivals(self, lock: asyncio.Lock, added: frozenset[str]) -> None:
        """Do the same only for the added namespaces `added`, which `lists` covers.

        Cluster-scoped objects are skipped, except Namespaces and objects of leading resources.
        Full shards are not drained, because this depends on all their objects.
        """
        self._added = added
        alone = [
            resource
            for resource in self._snapshot.resources
            if resource.id not in self._snapshot.cluster_scoped
            or resource.id == NAMESPACES
            or self._snapshot.roles[resource.id] is Role.LEADING
        ]
        await self._run(lock, alone, _nothing)

    async def _run(
        self,
        lock: asyncio.Lock,
        main: Sequence[RingResource],
        drain_excess: Callable[[], Awaitable[None]],
    ) -> None:
        self._mover.check(self._snapshot)
        try:
            for resource in main:
                await self._lists.noting(resource.id, self._rescue(resource, lock))
            await drain_excess()
            for resource in main:
                await self._lists.noting(resource.id, self._follow(resource))
        finally:
            self._reservations.give_back()
        await self._lists.wait()

    async def _rescue(self, main: RingResource, lock: asyncio.Lock) -> None:
        """Assign objects without a working shard; their dependents move first."""
        resource = await self._lists.find(main.id)
        if self._snapshot.roles[main.id] is not Role.LEADING:
            await self._lists.move_main(
                resource, self._stranded, partial(self._plan_free, resource)
            )
            return
        async with lock:
            owners = await self._displaced(main)
            if self._takes:
                await self._recall(main)
            await self._gather(main, owners)
            self._put_off(resource)
            await self._lists.move_main(
                resource, self._stranded, partial(self._plan_stranded, owners, resource)
            )

    def _put_off(self, main: Resource) -> None:
        """Defer owners whose dependents could not be written; the hand-over moves them."""
        for ref in self._lists.left_behind.values():
            where = ref if main.namespaced else ref._replace(namespace="")
            key = ObjectKey(ResourceKey(self._snapshot.name, main.id), where)
            self._mover.failures.put_off(key, BACKOFF.base)

    async def _displaced(self, main: RingResource) -> Owners:
        """Return the owners that wait for a drain.

        These are objects of all resources that share a controlled resource with `main`.
        """
        owners = Owners()
        async for resource in self._leading_with(main):
            await self._learn(resource, owners)
        return owners

    async def _recall(self, main: RingResource) -> None:
        """Recall objects of shards that are gone, before their dependents move."""
        async for resource in self._leading_with(main):
            recall = self._mover.recalling(self._snapshot, resource, self._reservations)
            await self._lists.move_all(resource, self._stranded, recall)

    async def _leading_with(self, main: RingResource) -> AsyncIterator[Resource]:
        """Yield the served main resources that share a controlled resource with `main`."""
        controlled = set(main.controlled_resources)
        for other in self._snapshot.resources:
            if controlled & set(other.controlled_resources):
                try:
                    resource = await self._lists.find(other.id)
                except NotFound as error:
                    self._lists.unreadable(other.id, error)
                else:
                    yield resource

    async def _learn(self, resource: Resource, owners: Owners) -> None:
        """Read all objects, or in a counted ring only those that can be displaced."""
        with naming_the_rule(resource.id):
            for labels in self._displacing:
                async for obj in self._lists.stream(resource, labels):
                    if not self._snapshot.selects(obj):
                        owners.leave(self._snapshot, obj)
                    elif self._mover.wait(self._snapshot, resource, obj) > 0:
                        self._has_lost = True
                    elif is_misdirected(self._snapshot, obj):
                        # Only the hand-over claims it, before its dependents move.
                        self._lists.left_behind[obj.metadata.uid] = obj.metadata.ref
                    elif self._leads_elsewhere(obj):
                        owners.note(self._snapshot, obj, ELSEWHERE)
                    else:
                        step = self._reservations.plan(obj)
                        owners.note(self._snapshot, obj, step)
                        is_owned = self._snapshot.owner_of(obj) is not None
                        self._takes |= is_owned and isinstance(step, Assign)

    async def _gather(self, main: RingResource, owners: Owners) -> None:
        """Move the dependents of the main objects to their owners' shards.

        Dependents on shards that are gone come last: the Lease of such a shard is reserved from
        their writes until the writes of their owners.  If the leader fails in between, the shard
        can return, but its objects were recalled.
        """
        decide = partial(self._plan_controlled, owners)
        for labels in (self._settled, self._stranded):
            for controlled in main.controlled_resources:
                if self._snapshot.roles[controlled.id] is not Role.CONTROLLED:
                    continue
                try:
                    resource = await self._lists.find(controlled.id)
                    await self._lists.move_controlled(resource, labels, decide)
                except NotFound as error:
                    # There are no such objects that the main objects could wait for.
                    self._lists.unreadable(controlled.id, error)

    def _leads_elsewhere(self, obj: PartialObject) -> bool:
        """Return whether an object without a working shard can control objects not listed here.

        Such an object is moved by the hand-over, or by a pass over the whole ring.
        """
        is_listed = (
            self._added is None or obj.metadata.namespace or obj.metadata.name in self._added
        )
        return (
            not is_listed and self._snapshot.owner_of(obj) not in self._snapshot.members.available
        )

    def _plan_controlled(self, owners: Owners, obj: PartialObject) -> Step:
        reference = obj.metadata.controller
        if reference is not None and reference.uid in self._lists.left_behind:
            return Keep("its controller could not be written, or another of its objects")
        return plan_controlled(self._snapshot, obj, owners)

    def _plan_free(self, resource: Resource, obj: PartialObject) -> Step:
        """Return the step; an object that just lost its owner label is left to the hand-over."""
        if self._mover.wait(self._snapshot, resource, obj) > 0:
            return LOST
        return plan_main(self._snapshot, obj)

    def _plan_stranded(self, owners: Owners, resource: Resource, obj: PartialObject) -> Step:
        """Return the step; keep an object whose dependents have not moved to its target."""
        step = self._reservations.keep(obj)
        is_unassigned = self._snapshot.owner_of(obj) is None
        guards = (
            (self._leads_elsewhere(obj), ELSEWHERE),
            (owners.waits(obj), RELEASED),
            (not self._reservations.has_planned(obj), NOT_LISTED),
            (is_unassigned and self._has_lost, LOST),
            # It can lose its label after its dependents were listed; they wait as long.
            (self._mover.wait(self._snapshot, resource, obj) > 0, LOST),
            (obj.metadata.uid in self._lists.left_behind, LEFT_BEHIND),
            (self._is_claimed(owners, obj, step), CLAIMED),
        )
        return next((why for applies, why in guards if applies), step)

    def _is_claimed(self, owners: Owners, obj: PartialObject, step: Step) -> bool:
        """Return whether an object's dependents moved to another shard, or will be moved there."""
        if not isinstance(step, Assign):
            return False
        is_unassigned = self._snapshot.owner_of(obj) is None
        is_sent_elsewhere = self._snapshot.is_sent_elsewhere(obj, step.shard)
        have_followed = owners.expects(self._snapshot, obj, step.shard)
        return not have_followed or (is_unassigned and is_sent_elsewhere)

    async def _follow(self, main: RingResource) -> None:
        """Drain objects that belong elsewhere, and withdraw outdated drains."""
        resource = await self._lists.find(main.id)
        self._lists.begin(main.id)
        for labels in self._following:
            await self._lists.move_main(resource, labels, partial(plan_owned, self._snapshot))


async def _nothing() -> None:
    """Drain no shard."""

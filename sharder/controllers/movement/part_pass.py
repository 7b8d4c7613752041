"""One pass over a part of a ring: the objects of a main resource in one request.

First it rescues objects without a working shard, then it follows the placement.  Memory does not
grow with the number of objects: main objects are remembered only if they wait for a drain and
control others (docs/protocol.md, "Moving objects").
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from sharder.controllers.counting.unread_parts import Unreadable
from sharder.controllers.movement.dependents import Dependent, DependentsFollower
from sharder.controllers.movement.handover_queue import AT_ONCE
from sharder.controllers.movement.pass_context import PassContext
from sharder.controllers.scope import ListScope, Part, ResourceKey, requests_of
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import RingResource
from sharder.core.errors import NotFound
from sharder.core.movement.planner import (
    Owners,
    following_labels,
    is_free,
    plan_controlled,
    plan_owned,
    stranded_labels,
)
from sharder.core.movement.step import Keep
from sharder.core.names import GroupResource
from sharder.core.ring.snapshot import Role
from sharder.runtime.task_pool import Batch, batch

FOLLOWED_TOGETHER: Final = 100
"""Controlled objects whose owners are read together."""


class PartPass:
    """A pass over one part, decided from one snapshot."""

    def __init__(
        self,
        context: PassContext,
        main: RingResource,
        resource: Resource,
        list_scope: ListScope,
    ) -> None:
        """Begin with nothing listed.

        Args:
            context: What all parts of the pass share.
            main: The resource of the part, as the ring has it.
            resource: The same, as it is served.
            list_scope: The namespace of the part; those of all for a cluster-scoped resource.
        """
        namespace = list_scope[0] if resource.namespaced else ""
        self.part = Part(ResourceKey(context.snapshot.name, main.id), namespace)
        self.resource = resource
        self.uncontrolled = 0
        """The listed objects of controlled resources that have no controller."""
        self._context = context
        self._snapshot = context.snapshot
        self._mover = context.mover
        self.main = main
        self._leads = context.snapshot.roles[main.id] is Role.LEADING
        self._list_scope = list_scope
        self._owners = Owners()

    async def rescue(self) -> None:
        """Assign objects without a working shard, those that lead others after these.

        Raises:
            Unreadable: a list failed.
        """
        free = list[PartialObject]()
        async with batch(self._mover.limit) as writes:
            async for obj in self._main_objects(stranded_labels(self._snapshot)):
                if is_free(self._snapshot, obj):
                    free.append(obj)
                else:
                    await self._move(writes, obj)
                if len(free) >= AT_ONCE:
                    await self._hand_over(free)
        await self._hand_over(free)

    async def follow(self) -> None:
        """Drain objects that belong elsewhere, withdraw outdated drains, and gather dependents.

        Raises:
            Unreadable: a list failed.
        """
        for labels in following_labels(self._snapshot):
            async with batch(self._mover.limit) as writes:
                async for obj in self._main_objects(labels):
                    await self._move(writes, obj)
        for controlled in self.main.controlled_resources:
            if self._snapshot.roles[controlled.id] is Role.CONTROLLED and self._leads:
                await self._gather(controlled.id)

    async def _move(self, writes: Batch, obj: PartialObject) -> None:
        if not isinstance(self._mover.plan(self._snapshot, obj, plan_owned), Keep):
            await writes.add(self._context.move(self.resource, obj, plan_owned))

    async def _hand_over(self, free: list[PartialObject]) -> None:
        left = await self._context.handover.rescue(self._snapshot, self.resource, free)
        for obj in free:
            if obj.metadata.ref not in left:
                self._owners.forget(obj)
        free.clear()

    async def stream(
        self, resource: Resource, labels: str = ""
    ) -> AsyncGenerator[PartialObject, None]:
        """Yield the matching objects of a resource, page by page; some can be out of scope.

        Raises:
            Unreadable: the list failed.
            Superseded: we lost leadership, or the ring has changed.
        """
        objects = self._context.ports.objects
        for namespace in requests_of(resource, self._list_scope):
            with self._context.reading(resource.id, namespace):
                store = objects.of(resource, labels, namespace=namespace)
                async with aclosing(store.stream()) as found:
                    async for obj in found:
                        self._mover.check(self._snapshot)
                        yield obj

    async def _main_objects(self, labels: str) -> AsyncGenerator[PartialObject, None]:
        """Yield the matching main objects in scope, and learn where each is."""
        async with aclosing(self.stream(self.resource, labels)) as found:
            async for obj in found:
                if self._leads:
                    self._owners.note(self._snapshot, obj)
                if self._snapshot.selects(obj):
                    self._context.ports.annotation_warnings.check(self._snapshot, obj)
                    yield obj

    async def _gather(self, controlled: GroupResource) -> None:
        """Move objects that are not with their owners; none if their resource is not served."""
        try:
            await self._gather_all(await self._context.find(controlled))
        except Unreadable as error:
            if not isinstance(error.error, NotFound):
                raise
            self._context.unread[Part(ResourceKey(self._snapshot.name, controlled))] = error

    async def _gather_all(self, resource: Resource) -> None:
        """Find objects that are not with their owners as these were listed, and move them.

        The known owners are as old as their list.  A newer owner, or an owner of a resource that
        does not list this one in `controlledResources`, can be in work on the object's shard.
        """
        found, leading = list[Dependent](), self._leading(resource.id)
        async for obj in self.stream(resource):
            by = self._snapshot.controller_resource(obj)
            is_mine = (by if by in leading else leading[0]) == self.main.id
            if not is_mine or not self._snapshot.selects(obj, Role.CONTROLLED):
                continue
            self.uncontrolled += obj.metadata.controller is None
            if not isinstance(plan_controlled(self._snapshot, obj, self._owners), Keep):
                found.append((resource, obj))
            if len(found) >= FOLLOWED_TOGETHER:
                await self._follow(found)
        await self._follow(found)

    def _leading(self, controlled: GroupResource) -> list[GroupResource]:
        """Return the main resources that list a controlled one, and gather its objects.

        Each gathers those of its own objects, and the first one also all others.
        """
        served = {kind.resource for kind in self._snapshot.kinds.values()}
        return [
            main.id
            for main in self._snapshot.resources
            if controlled in {each.id for each in main.controlled_resources}
            and main.id in {*served, self.main.id}
        ]

    async def _follow(self, found: list[Dependent]) -> None:
        with self._context.reading(self.main.id):
            await DependentsFollower(self._snapshot, self._mover).run(found)
        found.clear()

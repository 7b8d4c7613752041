"""One pass over a part of a ring: the objects of a main resource in one request.

First it rescues objects without a working shard, then it follows the placement.  Memory does not
grow with the number of objects: main objects are remembered only if they wait for a drain and
control others (docs/protocol.md, "Moving objects").
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import Final, NamedTuple

from sharder.controllers.counting.unread_parts import Unreadable
from sharder.controllers.movement.dependents import DependentsFollower
from sharder.controllers.movement.owner_transfer import AT_ONCE
from sharder.controllers.movement.pass_context import PassContext
from sharder.controllers.scope import ListScope, ObjectKey, Part, ResourceKey, requests_of
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import RingResource
from sharder.core.errors import NotFound
from sharder.core.movement.planner import (
    Owners,
    is_free,
    plan_controlled,
    plan_main,
    plan_owned,
    selectors_of,
)
from sharder.core.movement.step import Assign, Keep, Step
from sharder.core.names import GroupResource
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.runtime.task_pool import batch

LOST: Final = Keep("its last owner may still be working on it")
WITH_CHILDREN: Final = Keep("the hand-over moves it, after its controlled objects")
WITH_PARENT: Final = Keep("it moves together with its controller")
OF_OTHERS: Final = Keep("it moves with objects of another resource")

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
        self.missing = dict[Part, Unreadable]()
        """The controlled resources that are not served."""
        self.uncontrolled = 0
        """The listed objects of controlled resources that have no controller."""
        self._context = context
        self._snapshot = context.snapshot
        self._mover = context.mover
        self._main = main
        self._leads = context.snapshot.roles[main.id] is Role.LEADING
        self._list_scope = list_scope
        self._selectors = selectors_of(context.snapshot)
        self._owners = Owners()
        self._free = set[str]()
        """The uids of leading objects without a working shard: their dependents move with them."""

    @property
    def parts(self) -> list[Part]:
        """The part, and those of the objects that its objects control."""
        resources = (self._main.id, *(each.id for each in self._main.controlled_resources))
        ring, namespace = self._snapshot.name, self.part.namespace
        return [Part(ResourceKey(ring, each), namespace) for each in resources]

    async def rescue(self) -> None:
        """Assign objects without a working shard, those that lead others after these.

        Raises:
            Unreadable: a list failed.
        """
        free = list[PartialObject]()
        async with batch(self._mover.limit) as writes:
            async for obj in self._main_objects(self._selectors.stranded):
                if self._leads and is_free(self._snapshot, obj):
                    step = plan_main(self._snapshot, obj) if self._can_move(obj) else WITH_CHILDREN
                    free += [obj] if isinstance(step, Assign) else []
                else:
                    step = self._plan_stranded(self._snapshot, obj)
                    if not isinstance(step, Keep):
                        await writes.add(
                            self._context.move(self.resource, obj, self._plan_stranded)
                        )
                self._context.stats.note(step)
                if len(free) >= AT_ONCE:
                    await self._hand_over(free)
                    free = []
        await self._hand_over(free)

    async def _hand_over(self, found: list[PartialObject]) -> None:
        context = self._context
        moved = await context.handover.rescue(
            context.snapshot, self.resource, found, context.stats
        )
        self._free -= {obj.metadata.uid for obj in found if obj.metadata.ref in moved}

    async def follow(self) -> None:
        """Drain objects that belong elsewhere, withdraw outdated drains, and gather dependents.

        Raises:
            Unreadable: a list failed.
        """
        for labels in self._selectors.following:
            async with batch(self._mover.limit) as writes:
                async for obj in self._main_objects(labels):
                    step = plan_owned(self._snapshot, obj)
                    self._context.stats.note(step)
                    if not isinstance(step, Keep):
                        await writes.add(self._context.move(self.resource, obj, plan_owned))
        if self._leads:
            await self._gather()

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
                self._learn(obj)
                if self._snapshot.selects(obj):
                    self._context.ports.annotation_warnings.check(self._snapshot, obj)
                    yield obj

    def _learn(self, obj: PartialObject) -> None:
        """Remember a leading object that is not on the shard that its key or count implies."""
        if not self._leads:
            return
        if not self._snapshot.selects(obj):
            self._owners.leave(self._snapshot, obj)
        elif is_free(self._snapshot, obj):
            self._free.add(obj.metadata.uid)
        else:
            self._free.discard(obj.metadata.uid)
            self._owners.note(self._snapshot, obj, plan_main(self._snapshot, obj))

    def _can_move(self, obj: PartialObject) -> bool:
        """Return whether a leading object can be moved now, with all that it controls."""
        key = ObjectKey(self.part.resource_key, obj.metadata.ref)
        return not self._mover.failures.wait(key) and not self._mover.wait(
            self._snapshot, self.resource, obj
        )

    def _plan_stranded(self, snapshot: RingSnapshot, obj: PartialObject) -> Step:
        """Return the step of an object that does not move with others."""
        if snapshot.leads(obj) and is_free(snapshot, obj):
            return WITH_CHILDREN
        if self._mover.wait(snapshot, self.resource, obj) > 0:
            return LOST
        return plan_main(snapshot, obj)

    async def _gather(self) -> None:
        """Move the dependents of the other objects to their owners' shards."""
        async for resource in self._controlled():
            sharing = await self._sharing(resource)
            with self._unless_missing(resource.id):
                await self._move_controlled(resource, sharing)

    async def _move_controlled(self, resource: Resource, sharing: "_Sharing") -> None:
        """Move objects that are not with their owners, which are read first.

        The known owners are as old as their list.  A newer owner, or an owner of a resource that
        does not list this one in `controlledResources`, can be in work on the object's shard.
        """
        found = list[PartialObject]()
        async for obj in self.stream(resource):
            if not self._snapshot.selects(obj, Role.CONTROLLED):
                continue
            self.uncontrolled += sharing.is_first and obj.metadata.controller is None
            if not isinstance(self._plan_controlled(sharing, obj), Keep):
                found.append(obj)
            if len(found) >= FOLLOWED_TOGETHER:
                await self._follow(resource, found)
        await self._follow(resource, found)

    async def _follow(self, resource: Resource, found: list[PartialObject]) -> None:
        if not found:
            return
        follower = DependentsFollower(
            self._snapshot, objects=self._context.ports.objects, mover=self._mover
        )
        with self._context.reading(resource.id):
            await follower.run(resource, found)
        found.clear()

    async def _controlled(self) -> AsyncIterator[Resource]:
        """Yield the controlled resources that are served."""
        for controlled in self._main.controlled_resources:
            if self._snapshot.roles[controlled.id] is not Role.CONTROLLED:
                continue
            with self._unless_missing(controlled.id):
                yield await self._context.find(controlled.id)

    @contextmanager
    def _unless_missing(self, controlled: GroupResource) -> Iterator[None]:
        """Note a controlled resource that is not served: there are no objects to wait for."""
        try:
            yield
        except Unreadable as error:
            if not isinstance(error.error, NotFound):
                raise
            self.missing[Part(ResourceKey(self._snapshot.name, controlled))] = error

    async def _sharing(self, controlled: Resource) -> "_Sharing":
        """Return which objects of a controlled resource this part moves.

        These are the objects that its own objects control.  The first main resource also moves the
        objects that no main object controls.
        """
        kinds = list[tuple[str, str]]()
        for other in self._snapshot.resources:
            if controlled.id not in {each.id for each in other.controlled_resources}:
                continue
            with suppress(Unreadable):  # its objects wait for its own part
                resource = await self._context.find(other.id)
                kinds.append((resource.id.group, resource.kind))
        own = self.resource.id.group, self.resource.kind
        return _Sharing(own, frozenset(kinds) - {own}, is_first=kinds[:1] == [own])

    def _plan_controlled(self, sharing: "_Sharing", obj: PartialObject) -> Step:
        reference = obj.metadata.controller
        if not sharing.includes(None if reference is None else (reference.group, reference.kind)):
            return OF_OTHERS
        if reference is not None and reference.uid in self._free:
            return WITH_PARENT
        return plan_controlled(self._snapshot, obj, self._owners)


class _Sharing(NamedTuple):
    """Which objects of a controlled resource a part moves, by the kinds that control them."""

    own: tuple[str, str]
    others: frozenset[tuple[str, str]]
    is_first: bool

    def includes(self, kind: tuple[str, str] | None) -> bool:
        """Return whether the part moves objects with a controller of this kind."""
        return kind == self.own or (self.is_first and kind not in self.others)

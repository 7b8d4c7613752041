"""List one part of a ring, and move the objects that need a step, with one snapshot."""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sharder.controllers.annotation_warnings import AnnotationWarnings
from sharder.controllers.counting.resync_stats import ResyncStats
from sharder.controllers.counting.unread_parts import Unreadable
from sharder.controllers.movement.handover.handover_queue import HandoverQueue
from sharder.controllers.movement.resync.deferred_drains import DeferredDrains
from sharder.controllers.movement.writes.dependents import DependentsFollower
from sharder.controllers.movement.writes.drain_budget import DrainDeferred
from sharder.controllers.movement.writes.failures import BackingOff
from sharder.controllers.movement.writes.mover import Decide, Mover
from sharder.controllers.permissions import naming_the_rule
from sharder.controllers.scope import ListScope, Part, ResourceKey, requests_of
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import ApiError, InvalidObject
from sharder.core.movement.step import Keep, Relabel, Step
from sharder.core.names import GroupResource
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.ports import Objects
from sharder.runtime.reflector import closing
from sharder.runtime.task_pool import batch

AT_ONCE = 100
"""Controlled objects whose owners are read together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What all parts of a pass share."""

    snapshot: RingSnapshot
    objects: Objects
    mover: Mover
    annotation_warnings: AnnotationWarnings
    stats: ResyncStats
    deferred: DeferredDrains
    pending: HandoverQueue

    async def find(self, of: GroupResource) -> Resource:
        """Return the resource as it is served."""
        with self.reading(of):
            return await self.objects.find(of)

    @contextmanager
    def reading(self, of: GroupResource, namespace: str = "") -> Iterator[None]:
        """Raise `Unreadable`, with the missing right, for an error of the API server."""
        try:
            with naming_the_rule(of):
                yield
        except ApiError as error:
            part = Part(ResourceKey(self.snapshot.name, of), namespace)
            raise Unreadable(part, error) from error

    async def move(self, resource: Resource, obj: PartialObject, decide: Decide) -> Step | None:
        """Move one object; return the step, None if it could not be written.

        An object that cannot be written is retried on its own.
        """
        try:
            step = await self.mover.try_to_move(self.snapshot, resource, obj, decide)
        except DrainDeferred as error:
            self.deferred.add(resource, obj, decide, error)
            return Keep(str(error))
        except (ApiError, InvalidObject, BackingOff) as error:
            self.stats.failed(error)
            return None
        self.stats.carried_out(self.snapshot, obj, step)
        return step


class PartLists:
    """Lists a part, with what its objects control, and moves its objects."""

    def __init__(self, shared: Shared, list_scope: ListScope) -> None:
        """`list_scope` is the request of the part, or all requests if it is cluster-scoped."""
        self.uncontrolled = 0
        """The listed objects of controlled resources that have no controller."""
        self._shared = shared
        self._snapshot = shared.snapshot
        self._mover = shared.mover
        self._list_scope = list_scope

    async def move_main(
        self,
        resource: Resource,
        labels: str,
        decide: Decide,
        on_each: Callable[[PartialObject], None] = lambda _: None,
    ) -> None:
        """Move the matching objects of a main resource.

        `on_each` is called with each listed object, also with one that is out of scope.
        """

        def noting(obj: PartialObject) -> Step:
            step = decide(obj)
            self._shared.stats.note(step)
            self._shared.annotation_warnings.check(self._snapshot, obj)
            return step

        async with batch(self._mover.limit) as writes:
            async for obj in self.stream(resource, labels):
                self._mover.check(self._snapshot)
                on_each(obj)
                if self._snapshot.selects(obj) and not isinstance(noting(obj), Keep):
                    await writes.add(self._shared.move(resource, obj, decide))

    async def move_controlled(self, resource: Resource, decide: Decide, *, counts: bool) -> None:
        """Move objects; read the owner before an object leaves a working shard.

        `counts` is whether to count the objects without a controller.

        The known owners are as old as their list.  A newer owner, or an owner of a resource that
        does not list this one in `controlledResources`, can be in work on the object's shard.
        """
        leaving = list[PartialObject]()

        def first(obj: PartialObject) -> Step:
            step = decide(obj)
            if not isinstance(step, Relabel):
                return step
            leaving.append(obj)
            return Keep("its controller is read first")

        async with batch(self._mover.limit) as writes:
            async for obj in self.stream(resource):
                self._mover.check(self._snapshot)
                if not self._snapshot.selects(obj, Role.CONTROLLED):
                    continue
                self.uncontrolled += counts and obj.metadata.controller is None
                if not isinstance(first(obj), Keep):
                    await writes.add(self._shared.move(resource, obj, first))
                if len(leaving) >= AT_ONCE:
                    await self._follow(resource, leaving)
        await self._follow(resource, leaving)

    async def _follow(self, resource: Resource, leaving: list[PartialObject]) -> None:
        if not leaving:
            return
        found, leaving[:] = list(leaving), []
        follower = DependentsFollower(
            self._snapshot, objects=self._shared.objects, mover=self._mover
        )
        with self._shared.reading(resource.id):
            await follower.run(resource, found)

    async def stream(
        self, resource: Resource, labels: str = ""
    ) -> AsyncGenerator[PartialObject, None]:
        """Yield the matching objects of a resource, page by page; some can be out of scope.

        Raises:
            Unreadable: the list failed.
        """
        for request in requests_of(resource, self._list_scope):
            with self._shared.reading(resource.id, request.namespace):
                store = self._shared.objects.of(
                    resource, labels, namespace=request.namespace, fields=request.fields
                )
                async with closing(store.stream()) as found:
                    async for obj in found:
                        yield obj

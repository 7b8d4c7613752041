"""List a ring's objects, and move those that need a step, with one snapshot.

`ExcessDrainer` drains the least drawn objects of shards that have too many.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial

from sharder.controllers.annotation_warnings import AnnotationWarnings
from sharder.controllers.counting.resync_stats import ResyncStats
from sharder.controllers.movement.resync.deferred_drains import RETRY_SECONDS, DeferredDrains
from sharder.controllers.movement.writes.dependents import DependentsFollower
from sharder.controllers.movement.writes.drain_budget import DrainDeferred
from sharder.controllers.movement.writes.failures import BackingOff
from sharder.controllers.movement.writes.mover import Decide, Mover
from sharder.controllers.permissions import naming_the_rule
from sharder.controllers.scope import ListScope, ObjectKey, ResourceKey, stream
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import RingResource
from sharder.core.errors import ApiError, Expired, InvalidObject, NotFound
from sharder.core.movement.desired import excess_of
from sharder.core.movement.planner import keep_priority_of, plan_displaced
from sharder.core.movement.step import Assign, Keep, Recall, Relabel, Step
from sharder.core.names import GroupResource, ObjectRef, ShardName
from sharder.core.placement.distribution import LeastDrawn
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.ports import Objects
from sharder.runtime.clock import Clock
from sharder.runtime.task_pool import batch

AT_ONCE = 100
"""Controlled objects whose owners are read together."""


class ResyncLists:
    """Reads and moves the objects of one pass, and collects its results."""

    def __init__(
        self,
        snapshot: RingSnapshot,
        *,
        list_scope: ListScope,
        objects: Objects,
        mover: Mover,
        annotation_warnings: AnnotationWarnings,
        on_list: Callable[[ResourceKey], None],
        clock: Clock,
    ) -> None:
        """`list_scope` includes all objects in scope, and few other objects.

        `on_list` is called when the list of a resource's settled objects begins.
        """
        self.stats = ResyncStats(snapshot)
        self.deferred = DeferredDrains(snapshot, mover=mover, clock=clock)
        self.problem: str | None = None
        self.expired: Expired | None = None
        """A list expired, so some objects were not seen; this is not a failure."""
        self.left_behind = dict[str, ObjectRef]()
        """Owners that wait, by uid: the owner could not be recalled, or a dependent could not be
        written."""
        self._snapshot = snapshot
        self._objects = objects
        self._mover = mover
        self._annotation_warnings = annotation_warnings
        self._list_scope = list_scope
        self._on_list = on_list
        self._clock = clock

    def begin(self, resource: GroupResource) -> None:
        """Record that the list of a resource's settled objects begins."""
        self._on_list(ResourceKey(self._snapshot.name, resource))

    async def move_main(self, resource: Resource, labels: str, decide: Decide) -> None:
        """Move the matching objects of a main resource, and count each object."""

        def noting(obj: PartialObject) -> Step:
            step = decide(obj)
            self.stats.note(obj, step)
            self._annotation_warnings.check(self._snapshot, obj)
            return step

        await self.move_all(resource, labels, decide, first=noting)

    async def move_all(
        self, resource: Resource, labels: str, decide: Decide, *, first: Decide | None = None
    ) -> None:
        """Move the matching objects.

        `first`, if given, decides instead of `decide` whether an object needs a move.
        """
        first, role = first or decide, self._snapshot.roles[resource.id]
        with naming_the_rule(resource.id):
            async with batch(self._mover.limit) as writes:
                async for obj in self.stream(resource, labels):
                    self._mover.check(self._snapshot)
                    if self._snapshot.selects(obj, role) and not isinstance(first(obj), Keep):
                        await writes.add(self.move(resource, obj, decide))

    async def move_controlled(self, resource: Resource, labels: str, decide: Decide) -> None:
        """Move the matching objects; read the owner before an object leaves a working shard.

        The known owners are as old as their list.  A newer owner, or an owner of a resource that
        does not list this one in `controlledResources`, can be in work on the object's shard.
        """
        leaving, role = list[PartialObject](), self._snapshot.roles[resource.id]

        def first(obj: PartialObject) -> Step:
            step = decide(obj)
            if not isinstance(step, Relabel):
                return step
            leaving.append(obj)
            return Keep("its controller is read first")

        with naming_the_rule(resource.id):
            async with batch(self._mover.limit) as writes:
                async for obj in self.stream(resource, labels):
                    self._mover.check(self._snapshot)
                    if self._snapshot.selects(obj, role) and not isinstance(first(obj), Keep):
                        await writes.add(self.move(resource, obj, first))
                    if len(leaving) >= AT_ONCE:
                        await self._follow(resource, leaving)
            await self._follow(resource, leaving)

    async def _follow(self, resource: Resource, leaving: list[PartialObject]) -> None:
        if not leaving:
            return
        found, leaving[:] = list(leaving), []
        follower = DependentsFollower(self._snapshot, objects=self._objects, mover=self._mover)
        await follower.run(resource, found)
        self.left_behind |= follower.left_behind

    async def stream(
        self, resource: Resource, labels: str = ""
    ) -> AsyncGenerator[PartialObject, None]:
        """Yield the matching objects of a resource."""
        async with aclosing(stream(self._objects, resource, self._list_scope, labels)) as objects:
            async for obj in objects:
                yield obj

    async def move(self, resource: Resource, obj: PartialObject, decide: Decide) -> None:
        """Move one object; an object that cannot be written is retried on its own."""
        try:
            step = await self._mover.try_to_move(self._snapshot, resource, obj, decide)
        except DrainDeferred as error:
            self.deferred.add(resource, obj, decide, error)
        except (ApiError, InvalidObject, BackingOff) as error:
            self.stats.failed(error)
            if self._snapshot.roles[resource.id] is Role.CONTROLLED:
                self._keep_owner(resource, obj)
            elif isinstance(step := decide(obj), Assign):
                self.stats.left(obj)
            elif isinstance(step, Recall):
                self.left_behind[obj.metadata.uid] = obj.metadata.ref
        else:
            self.stats.carried_out(obj, step)

    def _keep_owner(self, resource: Resource, obj: PartialObject) -> None:
        reference = obj.metadata.controller
        key = ObjectKey(ResourceKey(self._snapshot.name, resource.id), obj.metadata.ref)
        if reference is not None and self._mover.failures.keeps_owner(key):
            self.left_behind[reference.uid] = ObjectRef(obj.metadata.namespace, reference.name)

    async def wait(self) -> None:
        """Write deferred drains as soon as the budget allows, while waiting is worth it."""
        while self.deferred.lasts():
            await self._clock.sleep(RETRY_SECONDS)
            self._mover.check(self._snapshot)
            async with batch(self._mover.limit) as writes:
                for resource, obj, decide in self.deferred.take():
                    await writes.add(self.move(resource, obj, decide))

    async def noting(self, resource: GroupResource, work: Awaitable[None]) -> None:
        """Await `work`, and record an error, so that other resources can be handled."""
        try:
            await work
        except Expired as error:
            self.expired = error
        except ApiError as error:
            self.unreadable(resource, error)

    def unreadable(self, resource: GroupResource, error: ApiError) -> None:
        """Record that a resource cannot be read; only the first problem is kept."""
        hint = "; see spec.resources" if isinstance(error, NotFound) else ""
        self.problem = self.problem or f"cannot read {resource}: {error}{hint}"

    async def find(self, resource: GroupResource) -> Resource:
        """Return the resource as it is served."""
        with naming_the_rule(resource):
            return await self._objects.find(resource)


class ExcessDrainer:
    """Drains the objects above a ceiling."""

    def __init__(self, snapshot: RingSnapshot, lists: ResyncLists, *, limit: int) -> None:
        """`limit` bounds the concurrent writes."""
        self._snapshot = snapshot
        self._lists = lists
        self._limit = limit

    async def run(self) -> None:
        """Drain the excess of one shard after the other."""
        for shard, excess in excess_of(self._snapshot).items():
            await self._drain_excess(shard, excess)

    async def _drain_excess(self, shard: ShardName, excess: int) -> None:
        displaced = LeastDrawn[tuple[Resource, PartialObject]](excess)
        for main in self._snapshot.resources:
            await self._lists.noting(main.id, self._offer(main, shard, displaced))
        decide = partial(plan_displaced, self._snapshot, shard=shard)
        async with batch(self._limit) as writes:
            for resource, obj in displaced.items():
                await writes.add(self._lists.move(resource, obj, decide))

    async def _offer(
        self,
        main: RingResource,
        shard: ShardName,
        displaced: LeastDrawn[tuple[Resource, PartialObject]],
    ) -> None:
        """Offer the shard's objects of a resource, except objects that leave the shard anyway."""
        resource = await self._lists.find(main.id)
        with naming_the_rule(resource.id):
            async for obj in self._lists.stream(resource, f"{self._snapshot.owner_label}={shard}"):
                if self._snapshot.selects(obj) and self._snapshot.entry_of(obj).stays:
                    displaced.offer(keep_priority_of(self._snapshot, obj, shard), (resource, obj))

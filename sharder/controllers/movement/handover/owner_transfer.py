"""Move single objects of main resources one step, each after its dependents.

One transfer moves many objects of one resource at once, so that their dependents are listed once
(docs/protocol.md, "Moving objects").
"""

from collections.abc import AsyncGenerator, Iterator, Mapping
from functools import partial

from sharder.controllers.movement.waiting.pending import BACKOFF, UNKNOWN
from sharder.controllers.movement.writes.dependents import DependentsFollower
from sharder.controllers.movement.writes.failures import BackingOff, Failures
from sharder.controllers.movement.writes.mover import Decide, Mover
from sharder.controllers.scope import MAX_NAMESPACES, ObjectKey, ResourceKey
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import ControlledResource, RingResource
from sharder.core.errors import ApiError, InvalidObject, NotFound
from sharder.core.movement.planner import Reservations, plan_owned
from sharder.core.movement.step import Assign, Keep, Step, next_step, position_of
from sharder.core.names import ObjectRef, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.ports import Objects
from sharder.runtime.task_pool import batch


class OwnerTransfer:
    """Moves released and orphaned objects after their dependents, by one snapshot."""

    def __init__(
        self, snapshot: RingSnapshot, *, objects: Objects, mover: Mover, failures: Failures
    ) -> None:
        self.fault: str | None = None
        """The first error of the ring's strategy."""
        self._snapshot = snapshot
        self._objects = objects
        self._mover = mover
        self._failures = failures
        self._reservations = Reservations(snapshot)
        self._stuck = dict[str, float]()
        self._lost = dict[str, PartialObject]()
        """Objects that another client has assigned meanwhile, by uid."""

    async def run(
        self, main: Resource, found: list[PartialObject], shards: Mapping[ObjectRef, ShardName]
    ) -> dict[ObjectRef, float]:
        """Move each object one step; a failure holds back that object only.

        Args:
            main: The resource of the objects.
            found: The objects as they are now.
            shards: The shard that released each object, where known.

        Returns:
            Objects that wait for their dependents, and for how many seconds.
        """
        try:
            return await self._run(main, found, shards)
        except BaseException:
            self._reservations.give_back()
            raise

    async def _run(
        self, main: Resource, found: list[PartialObject], shards: Mapping[ObjectRef, ShardName]
    ) -> dict[ObjectRef, float]:
        placed = {obj.metadata.uid: obj for obj in found if isinstance(self._plan(obj), Assign)}
        shards_left = self._left(placed, shards)
        await self._recall(main, placed)
        led = {uid: obj for uid, obj in placed.items() if uid not in self._stuck}
        for entry in self._snapshot.resources:
            if entry.id == main.id and led:
                await self._move_controlled(entry, led, shards_left)
        follow = partial(plan_owned, self._snapshot)
        async with batch(self._mover.limit) as writes:
            for obj in found:
                uid = obj.metadata.uid
                if uid in self._stuck:
                    continue
                if uid in placed:
                    await writes.add(self._give(main, obj))
                else:
                    await writes.add(self._move(main, obj, follow, uid))
        for entry in self._snapshot.resources:
            if entry.id == main.id and self._lost:
                await self._rejoin(entry)
        return {
            o.metadata.ref: self._stuck[uid] for uid, o in placed.items() if uid in self._stuck
        }

    async def _recall(self, main: Resource, placed: Mapping[str, PartialObject]) -> None:
        """Let lost shards release their objects if they return, before dependents move away."""
        if self._snapshot.roles[main.id] is not Role.LEADING:
            return
        recall = self._mover.recalling(self._snapshot, main, self._reservations)
        async with batch(self._mover.limit) as writes:
            for uid, obj in placed.items():
                if not isinstance(recall(obj), Keep):
                    await writes.add(self._move(main, obj, recall, uid))

    async def _give(self, main: Resource, obj: PartialObject) -> None:
        """Assign a main object; record if another client was faster."""
        uid = obj.metadata.uid
        step = await self._move(main, obj, self._reservations.keep, uid)
        if step is not None and not isinstance(step, Assign):
            self._lost[uid] = obj
            self._reservations.give_back_for(obj)

    async def _rejoin(self, entry: RingResource) -> None:
        """Move the dependents of lost objects to their owners' current shards."""
        for controlled in entry.controlled_resources:
            if self._snapshot.roles[controlled.id] is not Role.CONTROLLED:
                continue
            try:
                resource = await self._objects.find(controlled.id)
            except NotFound:
                continue
            followers = [child async for child in self._followers(resource, self._lost, "")]
            follower = DependentsFollower(self._snapshot, objects=self._objects, mover=self._mover)
            await follower.run(resource, followers)

    def _plan(self, obj: PartialObject) -> Step:
        step = self._reservations.plan(obj)
        if isinstance(step, Keep) and step.fault:
            self.fault = self.fault or step.why
        return step

    def _left(
        self, placed: Mapping[str, PartialObject], shards: Mapping[ObjectRef, ShardName]
    ) -> set[ShardName]:
        """Return the shards that can hold dependents of `placed`.

        The shard that released the object, and one that got it since and is gone.  Those of a
        recalled object were already being moved.
        """
        left = set[ShardName]()
        for obj in placed.values():
            if self._snapshot.is_recalled(obj):
                left.add(UNKNOWN)
                continue
            both = {shards[obj.metadata.ref], self._snapshot.owner_of(obj) or UNKNOWN}
            left |= both - {UNKNOWN} or {UNKNOWN}
        return left

    async def _move_controlled(
        self, entry: RingResource, owners: Mapping[str, PartialObject], shards: set[ShardName]
    ) -> None:
        """Move the dependents of `owners` that are still on `shards`."""
        # If the releasing shard is unknown, dependents can be anywhere.
        names = "" if UNKNOWN in shards else ",".join(sorted(shards))
        labels = f"{self._snapshot.owner_label} in ({names})" if names else ""
        for controlled in entry.controlled_resources:
            if self._snapshot.roles[controlled.id] is not Role.CONTROLLED:
                continue
            try:
                await self._move_followers(controlled, owners, labels)
            except NotFound:
                # It has no objects that the owners could wait for.
                continue

    async def _move_followers(
        self, controlled: ControlledResource, owners: Mapping[str, PartialObject], labels: str
    ) -> None:
        resource = await self._objects.find(controlled.id)
        async with batch(self._mover.limit) as writes:
            async for child in self._followers(resource, owners, labels):
                uid = _controller_of(child)
                decide = partial(self._follow, owners[uid])
                await writes.add(self._move(resource, child, decide, uid))

    async def _followers(
        self, resource: Resource, owners: Mapping[str, PartialObject], labels: str
    ) -> AsyncGenerator[PartialObject, None]:
        """Yield the matching dependents of `owners`."""
        for namespace in _namespaces_of(resource, owners):
            async for child in self._objects.of(resource, labels, namespace=namespace).stream():
                if _controller_of(child) in owners:
                    yield child

    async def _move(
        self, resource: Resource, obj: PartialObject, decide: Decide, owner_uid: str
    ) -> Step | None:
        """Move an owner or a dependent; a failure holds back that owner only."""
        try:
            return await self._mover.move(self._snapshot, resource, obj, decide)
        except (ApiError, InvalidObject, BackingOff):
            key = ObjectKey(ResourceKey(self._snapshot.name, resource.id), obj.metadata.ref)
            is_owner = obj.metadata.uid == owner_uid
            if not is_owner and not self._failures.keeps_owner(key):
                return None
            seconds = max(BACKOFF.base, self._failures.wait(key))
            self._stuck[owner_uid] = max(seconds, self._stuck.get(owner_uid, 0.0))
            return None

    def _follow(self, owner: PartialObject, child: PartialObject) -> Step:
        reference = child.metadata.controller
        if reference is None or reference.uid != owner.metadata.uid:
            return Keep("its controller has changed")
        desired = self._reservations.goal_of(owner)
        position = position_of(self._snapshot, child, desired)
        return next_step(position, self._snapshot.members, Role.CONTROLLED)


def _controller_of(child: PartialObject) -> str:
    """Return the uid of the object's controller, empty without one."""
    reference = child.metadata.controller
    return "" if reference is None else reference.uid


def _namespaces_of(resource: Resource, owners: Mapping[str, PartialObject]) -> Iterator[str]:
    """Yield the namespaces of the dependents; the empty one stands for all."""
    namespaces = {owner.metadata.namespace for owner in owners.values()}
    if not resource.namespaced or "" in namespaces or len(namespaces) > MAX_NAMESPACES:
        yield ""
    else:
        yield from sorted(namespaces)

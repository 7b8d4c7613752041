"""Move single objects of main resources one step, each after its dependents.

One transfer moves many objects of one resource, so that their dependents are listed once, and
assigns each as soon as its own dependents have moved (docs/protocol.md, "Moving objects").  Two
replicas can hand over the same objects at the same time, but only to the same shards, those in
`next`.  Only the leader can choose another shard; it does so seconds after the other replicas saw
the reason, and first writes the shard to `next`.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

from sharder.controllers.counting.resync_stats import ResyncStats
from sharder.controllers.movement.writes.dependents import DependentsFollower
from sharder.controllers.movement.writes.dependents_list import (
    UNKNOWN,
    Dependent,
    DependentsList,
    Reading,
)
from sharder.controllers.movement.writes.failures import BACKOFF, BackingOff, Failures
from sharder.controllers.movement.writes.mover import Decide, Mover
from sharder.controllers.permissions import naming_the_rule
from sharder.controllers.scope import ObjectKey, ResourceKey
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import ApiError, InvalidObject
from sharder.core.movement.planner import Reservations, plan_owned
from sharder.core.movement.step import Assign, Claim, Keep, Step, next_step, position_of
from sharder.core.names import GroupResource, ObjectRef, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.ports import Objects
from sharder.runtime.task_pool import batch

AT_ONCE = 2000
"""Objects of a part that are handed over together: up to 3 MB are read for them."""

PARENTS_AT_ONCE = 50
"""Objects that move at the same time with their dependents: enough to use all slots for writes,
and few enough that each is without a shard only for a moment."""


class OwnerTransfer:
    """Moves released and orphaned objects after their dependents, with one snapshot."""

    def __init__(
        self,
        snapshot: RingSnapshot,
        *,
        objects: Objects,
        mover: Mover,
        failures: Failures,
        stats: ResyncStats,
        reading: Reading = lambda of, _: naming_the_rule(of),
    ) -> None:
        """`stats` counts the steps, and `reading` handles the errors of each read."""
        self._stats = stats
        self._snapshot = snapshot
        self._objects = objects
        self._mover = mover
        self._failures = failures
        self._dependents = DependentsList(snapshot, objects, reading)
        self._reservations = Reservations(snapshot)
        self._goals = dict[str, ShardName]()
        """The target shards of placed objects, by uid."""
        self._stuck = dict[str, float]()
        self._lost = dict[str, PartialObject]()
        """Objects that another client has assigned in the meantime, by uid."""

    async def run(
        self, main: Resource, found: list[PartialObject], shards: Mapping[ObjectRef, ShardName]
    ) -> dict[ObjectRef, float]:
        """Move each object one step; a failure holds back only this object.

        Args:
            main: The resource of the objects.
            found: The current objects.
            shards: The shard that released each object, if known.

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
        dependents: Mapping[str, Sequence[Dependent]] = {}
        if self._snapshot.roles[main.id] is Role.LEADING:
            await self._announce(main, placed)
            led = {uid: obj for uid, obj in placed.items() if uid not in self._stuck}
            dependents = await self._dependents.of(main.id, led, self._left(led, shards))
        async with batch(PARENTS_AT_ONCE if dependents else self._mover.limit) as moves:
            for obj in found:
                await moves.add(self._carry(main, obj, dependents.get(obj.metadata.uid, ())))
        if self._lost:
            await self._rejoin(main)
        stuck = [obj for uid, obj in placed.items() if uid in self._stuck]
        for obj in stuck:  # it counts where it is, and is planned anew
            self._reservations.give_back_for(obj)
        return {obj.metadata.ref: self._stuck[obj.metadata.uid] for obj in stuck}

    async def _announce(self, main: Resource, placed: Mapping[str, PartialObject]) -> None:
        """Write where objects go before their dependents move, if other processes act on this.

        A shard that is gone releases recalled objects if it returns, and other replicas follow a
        claim.
        """
        recall = self._mover.recalling(self._snapshot, main, self._reservations)
        async with batch(self._mover.limit) as writes:
            for uid, obj in placed.items():
                if self._is_redirected(obj):
                    await writes.add(self._redirect(main, obj))
                elif not isinstance(recall(obj), Keep):
                    await writes.add(self._move(main, obj, recall, uid))

    def _claim(self, obj: PartialObject) -> Step:
        if self._is_redirected(obj):
            return Claim(self._goals[obj.metadata.uid])
        return Keep("it has a shard, or goes where its `next` says")

    def _is_redirected(self, obj: PartialObject) -> bool:
        """Return whether an object is unassigned, and goes elsewhere than its `next` says."""
        goal, is_unassigned = self._goals[obj.metadata.uid], self._snapshot.owner_of(obj) is None
        return is_unassigned and self._snapshot.is_sent_elsewhere(obj, goal)

    async def _redirect(self, main: Resource, obj: PartialObject) -> None:
        """Claim an object; leave it alone if another client was faster."""
        uid = obj.metadata.uid
        step = await self._move(main, obj, self._claim, uid)
        if step is not None and not isinstance(step, Claim):
            self._leave(uid)

    def _leave(self, uid: str) -> None:
        """Leave an object and its dependents to another replica for a moment."""
        self._stuck[uid] = max(BACKOFF.base, self._stuck.get(uid, 0.0))

    async def _carry(
        self, main: Resource, obj: PartialObject, dependents: Sequence[Dependent]
    ) -> None:
        """Move the dependents of an object, then assign it; move any other object one step.

        Record if another client was faster.
        """
        uid = obj.metadata.uid
        async with batch(self._mover.limit) as writes:
            for each in dependents:
                await writes.add(self._move_dependent(each))
        if uid in self._stuck:
            return
        if uid not in self._goals:
            await self._move(main, obj, partial(plan_owned, self._snapshot), uid)
            return
        step = await self._move(main, obj, partial(self._assign, uid), uid)
        if step is not None and not isinstance(step, Assign):
            self._lost[uid] = obj
            self._reservations.give_back_for(obj)

    async def _rejoin(self, main: Resource) -> None:
        """Move the dependents of lost objects to their controllers' current shards."""
        found: dict[GroupResource, list[Dependent]] = defaultdict(list)
        for dependents in (await self._dependents.of(main.id, self._lost, {UNKNOWN})).values():
            for each in dependents:
                found[each.resource.id].append(each)
        for moved in found.values():
            follower = DependentsFollower(self._snapshot, objects=self._objects, mover=self._mover)
            await follower.run(moved[0].resource, [each.obj for each in moved])

    def _plan(self, obj: PartialObject) -> Step:
        step = self._reservations.plan(obj)
        if isinstance(step, Assign):
            self._goals[obj.metadata.uid] = step.shard
        self._stats.note(step)
        return step

    def _assign(self, uid: str, obj: PartialObject) -> Step:
        """Return the step for an object whose dependents have moved."""
        step, goal = self._reservations.keep(obj), self._goals[uid]
        is_claimed = self._snapshot.leads(obj) and isinstance(self._claim(obj), Claim)
        if isinstance(step, Assign) and (is_claimed or step.shard != goal):
            self._leave(uid)
            return Keep("another replica hands it over, to another shard")
        return step

    def _left(
        self, owners: Mapping[str, PartialObject], shards: Mapping[ObjectRef, ShardName]
    ) -> set[ShardName]:
        """Return the shards on which dependents of the owners can be.

        If `next` names the target of a released owner, its dependents are there, or on the shard
        that released it.  Others can be on any shard, because an earlier attempt can have moved
        them to another target.
        """
        left = set[ShardName]()
        for uid, obj in owners.items():
            is_released = self._snapshot.owner_of(obj) is None
            is_settled = self._snapshot.direction_of(obj) == self._goals[uid]
            is_known = is_released and is_settled and not self._snapshot.is_recalled(obj)
            left.add(shards.get(obj.metadata.ref, UNKNOWN) if is_known else UNKNOWN)
        return left

    async def _move_dependent(self, each: Dependent) -> None:
        decide = partial(self._follow, each.controller, self._snapshot.owner_of(each.obj))
        await self._move(each.resource, each.obj, decide, each.controller)

    async def _move(
        self, resource: Resource, obj: PartialObject, decide: Decide, owner_uid: str
    ) -> Step | None:
        """Move an owner or a dependent; a failure holds back only this owner."""
        try:
            step = await self._mover.move(self._snapshot, resource, obj, decide)
        except (ApiError, InvalidObject, BackingOff) as error:
            self._stats.failed(error)
            key = ObjectKey(ResourceKey(self._snapshot.name, resource.id), obj.metadata.ref)
            is_owner = obj.metadata.uid == owner_uid
            if not is_owner and not self._failures.keeps_owner(key):
                return None
            seconds = max(BACKOFF.base, self._failures.wait(key))
            self._stuck[owner_uid] = max(seconds, self._stuck.get(owner_uid, 0.0))
            return None
        self._stats.carried_out(self._snapshot, obj, step)
        return step

    def _follow(self, uid: str, listed_on: ShardName | None, obj: PartialObject) -> Step:
        """Return the step for a dependent, listed on a shard, of an object that is placed."""
        reference = obj.metadata.controller
        if reference is None or reference.uid != uid:
            return Keep("its controller has changed")
        position = position_of(self._snapshot, obj, self._goals[uid])
        if position.current not in {listed_on, position.desired}:
            self._leave(uid)
            return Keep("another replica moves it, to another shard")
        return next_step(position, self._snapshot.members, Role.CONTROLLED)

"""Move main objects that no shard works on, each after its dependents.

One transfer moves many objects of one resource, so that their dependents are listed once.  An
object with dependents is first *sent*: it has no owner then, and its `next` says where it goes.
Its dependents move there side by side, and then it is assigned.  Every write is guarded, and every
replica goes by `next`, so two replicas can hand over the same object at the same time
(docs/protocol.md, "What moves first").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sharder.controllers.movement.dependents import Dependent, DependentsFollower, list_dependents
from sharder.controllers.movement.failures import BackingOff
from sharder.controllers.movement.mover import Decide, Mover
from sharder.controllers.movement.unassigned import UNKNOWN
from sharder.controllers.movement.written_steps import ResyncStats
from sharder.controllers.ports import BACKOFF
from sharder.controllers.scope import ObjectKey, ResourceKey
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import ApiError, InvalidObject
from sharder.core.leases.membership import Standing
from sharder.core.movement.planner import is_free, plan_handover, plan_main, plan_owned
from sharder.core.movement.step import Assign, Keep, Send, Step, next_step, position_of
from sharder.core.names import ObjectRef, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.ports import Objects
from sharder.runtime.task_pool import batch

ON_ITS_WAY = Keep("it is on its way")
SPEC_CHANGED = Keep("the ring's spec has changed; the next attempt moves it")

AT_ONCE = 2000
"""Objects of a part that are handed over together: up to 3 MB are read for them."""

CHANGED_SECONDS = 0.05
"""Seconds until the next transfer after the ring has changed."""

PARENTS_AT_ONCE = 12
"""Objects that move at the same time with their dependents: enough to keep the API server busy,
and so few that the first have a shard long before the last."""


@dataclass(slots=True)
class _Parent:
    """An object that moves with its dependents."""

    resource: Resource
    obj: PartialObject
    goal: ShardName | None = None
    """The shard to which it is sent."""
    waits: float = 0.0
    """Seconds until the next attempt, if something is left."""

    def leave(self, seconds: float = BACKOFF.base) -> None:
        """Leave what is left to the next attempt, in so many seconds or later."""
        self.waits = max(BACKOFF.base, seconds, self.waits)


class OwnerTransfer:
    """Moves released and orphaned objects after their dependents, with one snapshot."""

    def __init__(
        self, snapshot: RingSnapshot, *, objects: Objects, mover: Mover, stats: ResyncStats
    ) -> None:
        """`stats` counts the steps."""
        self._stats = stats
        self._snapshot = snapshot
        self._objects = objects
        self._mover = mover
        self._left = dict[ObjectRef, float]()
        self.assigned = set[ObjectRef]()
        """The objects that have got a shard."""

    async def run(self, main: Resource, found: list[PartialObject]) -> dict[ObjectRef, float]:
        """Move each object one step; a failure holds back only this object.

        Args:
            main: The resource of the objects.
            found: The current objects.

        Returns:
            The objects that wait, and for how many seconds.  If the ring changes, what has begun
            is finished, by the changed ring, and the others wait for another transfer.
        """
        dependents: Mapping[str, Sequence[Dependent]] = {}
        led, leads = {}, self._snapshot.roles[main.id] is Role.LEADING
        if leads:
            led = {obj.metadata.uid: obj for obj in found if is_free(self._snapshot, obj)}
            searched = {self._searched(main, obj) for obj in led.values()}
            dependents = await list_dependents(self._snapshot, self._objects, main, led, searched)
        begun = 0
        async with batch(PARENTS_AT_ONCE if dependents else self._mover.limit) as moves:
            for obj in found:
                if not self._mover.is_current(self._snapshot):
                    break
                begun += 1
                parent, uid = _Parent(main, obj), obj.metadata.uid
                plan = plan_owned if leads and uid not in led else plan_main
                await moves.add(self._carry(parent, dependents.get(uid, ()), plan))
        later = [obj.metadata.ref for obj in found[begun:]]
        return self._left | dict.fromkeys(later, CHANGED_SECONDS)

    def _searched(self, main: Resource, obj: PartialObject) -> ShardName:
        """Return the shard on which the dependents of an object are, `UNKNOWN` for any.

        They are with the shard that released it, or already with the one in its `next`, unless an
        attempt has moved some to another target.  The leader's passes find others; a standby has
        no passes.
        """
        goal = plan_main(self._snapshot, obj)
        is_settled = (
            self._snapshot.owner_of(obj) is None
            and isinstance(goal, Assign)
            and self._snapshot.direction_of(obj) == goal.shard
        )
        key = self._key(main, obj)
        is_known = is_settled and self._mover.takes
        return (self._mover.unassigned.searched(obj, key) if is_known else None) or UNKNOWN

    async def _carry(self, parent: _Parent, dependents: Sequence[Dependent], plan: Decide) -> None:
        """Move an object after its dependents; without any, move it one step of the plan."""
        if not dependents:
            await self._move(parent, partial(self._planned, plan))
        else:
            await self._send(parent)
            if parent.goal is not None and not parent.waits:
                await self._follow(parent, dependents)
        if parent.waits:
            self._left[parent.obj.metadata.ref] = parent.waits

    async def _send(self, parent: _Parent) -> None:
        """Send an object that is not on its way yet, and set its goal.

        After a released Lease too: if we die before the object has its next shard, its last one
        can return, and would not see the dependents that have moved.  If this keeps failing, it
        goes without: an object must not stay without a shard.
        """
        step = plan_handover(self._snapshot, parent.obj)
        self._stats.note(step)
        if isinstance(step, Assign) or (isinstance(step, Send) and self._gives_up(parent)):
            parent.goal = step.shard
            return

        def decide(snapshot: RingSnapshot, obj: PartialObject) -> Step:
            step = plan_handover(snapshot, obj)
            parent.goal = step.shard if isinstance(step, Send | Assign) else None
            return ON_ITS_WAY if isinstance(step, Assign) else step

        written = await self._move(parent, decide)
        if written is not ON_ITS_WAY and not isinstance(written, Send):
            parent.goal = None

    async def _follow(self, parent: _Parent, dependents: Sequence[Dependent]) -> None:
        """Move the dependents, then assign the object, unless another client was faster."""
        async with batch(self._mover.limit) as writes:
            for each in dependents:
                await writes.add(self._move_dependent(parent, each))
        if parent.waits:
            return
        step = await self._move(parent, partial(self._complete, parent))
        if step is None or isinstance(step, Assign) or parent.waits:
            return
        for resource in {each.resource.id: each.resource for each in dependents}.values():
            moved = [each.obj for each in dependents if each.resource.id == resource.id]
            follower = DependentsFollower(self._snapshot, objects=self._objects, mover=self._mover)
            await follower.run(resource, moved)

    def _complete(self, parent: _Parent, snapshot: RingSnapshot, obj: PartialObject) -> Step:
        """Return the step for an object whose dependents are on its goal."""
        step, goal = plan_main(snapshot, obj), parent.goal
        if not isinstance(step, Assign) or goal is None:
            return step
        if self._gives_up(parent):
            fits = snapshot.members.standing_of(goal) is Standing.AVAILABLE
        else:
            fits = plan_handover(snapshot, obj) == Assign(goal)
        if fits:
            return Assign(goal)
        parent.leave()
        return Keep("its dependents are on another shard")

    def _gives_up(self, parent: _Parent) -> bool:
        key = self._key(parent.resource, parent.obj)
        return self._mover.failures.is_stubborn(key) and not self._mover.failures.wait(key)

    def _planned(self, plan: Decide, snapshot: RingSnapshot, obj: PartialObject) -> Step:
        step = plan(snapshot, obj)
        self._stats.note(step)
        return step

    async def _move_dependent(self, parent: _Parent, each: Dependent) -> None:
        key = self._key(each.resource, each.obj)
        listed_on = self._snapshot.owner_of(each.obj)

        def decide(snapshot: RingSnapshot, obj: PartialObject) -> Step:
            reference, goal = obj.metadata.controller, parent.goal
            if reference is None or reference.uid != each.controller:
                return Keep("its controller has changed")
            position = position_of(snapshot, obj, goal)
            if position.current not in {listed_on, goal}:
                parent.leave()
                return Keep("another replica moves it, to another shard")
            return next_step(position, snapshot.members, Role.CONTROLLED)

        await self._write(each.resource, each.obj, decide, is_due=True)
        if self._mover.failures.keeps_owner(key):
            parent.leave(self._mover.failures.wait(key))

    async def _move(self, parent: _Parent, decide: Decide) -> Step | None:
        step = await self._write(parent.resource, parent.obj, decide)
        if step is None:
            key = self._key(parent.resource, parent.obj)
            parent.leave(self._mover.failures.wait(key))
        elif step == SPEC_CHANGED:
            parent.leave()
        elif isinstance(step, Assign):
            self.assigned.add(parent.obj.metadata.ref)
        return step

    async def _write(
        self, resource: Resource, obj: PartialObject, decide: Decide, *, is_due: bool = False
    ) -> Step | None:
        """Move an object or a dependent; None if it could not be written.

        Other shards make other decisions.  With another spec, other objects can be controlled.
        """

        def by_this_spec(snapshot: RingSnapshot, now: PartialObject) -> Step:
            is_same = snapshot.ring.metadata.generation == self._snapshot.ring.metadata.generation
            return decide(snapshot, now) if is_same else SPEC_CHANGED

        move = self._mover.move
        try:
            step = await move(self._snapshot.name, resource, obj, by_this_spec, is_due=is_due)
        except (ApiError, InvalidObject, BackingOff) as error:
            self._stats.failed(error)
            return None
        self._stats.carried_out(self._snapshot, obj, step)
        return step

    def _key(self, resource: Resource, obj: PartialObject) -> ObjectKey:
        return ObjectKey(ResourceKey(self._snapshot.name, resource.id), obj.metadata.ref)

"""Move main objects that no shard works on, each after its children.

One transfer moves many objects of one resource, so that their children are listed once.  An
object with children is first *sent*: it has no owner then, and its `next` says where it goes.
Its children move there side by side, and then it is assigned.  Every write is guarded, and every
replica goes by `next`, so two replicas can hand over the same object at the same time
(docs/protocol.md, "What moves first").
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from sharder.controllers.movement.children import (
    Child,
    ChildrenFollower,
    controller_of,
    list_children,
)
from sharder.controllers.movement.mover import Decide, Mover
from sharder.controllers.ports import BACKOFF
from sharder.controllers.scope import ObjectKey, read
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import ApiError, InvalidObject
from sharder.core.leases.membership import Standing
from sharder.core.movement.planner import is_stranded, plan_handover, plan_main, plan_owned
from sharder.core.movement.release import UNKNOWN
from sharder.core.movement.step import Assign, Keep, Send, Step, next_step, position_of
from sharder.core.names import ObjectRef, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.runtime.task_pool import batch

ON_ITS_WAY = Keep("it is on its way")
SPEC_CHANGED = Keep("the ring's spec has changed; the next attempt moves it")

CHANGED_SECONDS = 0.05
"""Seconds until the next transfer after the ring has changed."""

PARENTS_AT_ONCE = 12
"""Objects that move at the same time with their children: enough to keep the API server busy,
and so few that the first have a shard long before the last."""


class ParentTransfer:
    """Moves released and orphaned objects of one resource after their children."""

    def __init__(self, snapshot: RingSnapshot, main: Resource, mover: Mover) -> None:
        """`main` is the resource of the objects."""
        self._snapshot = snapshot
        self._main = main
        self._mover = mover
        self._failures = mover.failures
        self._leads = snapshot.roles[main.id] is Role.LEADING
        self._left = dict[ObjectRef, float]()

    async def run(self, found: Collection[PartialObject]) -> dict[ObjectRef, float]:
        """Move each of the current objects one step; a failure holds back only this object.

        An object waits until its last shard has stopped.  Those without owner are first: some wait
        since an earlier transfer was superseded.

        Returns:
            The objects that wait, and for how many seconds.  If the ring changes, what has begun
            is finished, by the changed ring, and the others wait for another transfer.
        """
        todo = list[PartialObject]()
        for obj in found:
            seconds = self._mover.wait(self._snapshot, self._main, obj)
            if seconds > 0:
                self._left[obj.metadata.ref] = seconds
            elif isinstance(self._mover.plan(self._snapshot, obj, self._plan_for(obj)), Keep):
                self._failures.over(self._key(obj))
            else:
                todo.append(obj)
        todo.sort(key=lambda obj: self._snapshot.owner_of(obj) is not None)
        children = await self._children(todo)
        self._left |= dict.fromkeys((obj.metadata.ref for obj in todo), CHANGED_SECONDS)
        async with batch(PARENTS_AT_ONCE if children else self._mover.limit) as moves:
            for obj in todo:
                if not self._mover.is_current(self._snapshot):
                    break
                del self._left[obj.metadata.ref]
                carry = partial(self._carry, obj, children.get(obj.metadata.uid, ()))
                await moves.add(self._mover.finish(carry))
        return self._left

    def _plan_for(self, obj: PartialObject) -> Decide:
        """Return the plan of an object without children; one that leads others can have some."""
        return plan_owned if self._leads and not is_stranded(self._snapshot, obj) else plan_main

    async def _children(self, todo: Collection[PartialObject]) -> Mapping[str, Sequence[Child]]:
        led = [obj for obj in todo if self._leads and is_stranded(self._snapshot, obj)]
        searched = {self._searched(obj) for obj in led}
        parents = {obj.metadata.uid: obj for obj in led}
        return await list_children(self._snapshot, self._mover, self._main, parents, searched)

    def _searched(self, obj: PartialObject) -> ShardName:
        """Return the shard on which the children of an object are, `UNKNOWN` for any.

        They are with the shard that released it, or already with the one in its `next`, unless an
        attempt has moved some to another target.  The leader's passes find others; a standby has
        no passes.
        """
        release = self._mover.table.get(self._key(obj)).release
        goal = plan_main(self._snapshot, obj)
        if self._snapshot.owner_of(obj) is not None or not isinstance(goal, Assign):
            return UNKNOWN
        is_there = self._snapshot.direction_of(obj) == goal.shard and self._mover.takes
        if not is_there or release is None or release.is_sent:
            return UNKNOWN
        return release.last_of(obj) or UNKNOWN

    async def _carry(self, obj: PartialObject, children: Sequence[Child]) -> None:
        """Send an object, move its children, and assign it; without any, move it one step."""
        if not children:
            await self._move(obj, self._plan_for(obj))
            return
        is_unowned = self._snapshot.owner_of(obj) is None
        gives_up = is_unowned and self._failures.is_stubborn(self._key(obj))
        goal = await self._send(obj, gives_up=gives_up)
        if goal is None or obj.metadata.ref in self._left:
            return
        async with batch(self._mover.limit) as writes:
            for each in children:
                await writes.add(self._move_child(obj, goal, each))
        if obj.metadata.ref in self._left:
            return
        complete = partial(self._complete, goal=goal, gives_up=gives_up)
        step = await self._move(obj, complete)
        if isinstance(step, Keep) and obj.metadata.ref not in self._left:
            # Another client has brought it elsewhere.
            now = self._mover.current(self._snapshot.name)
            await ChildrenFollower(now, self._mover).run(children)

    async def _send(self, obj: PartialObject, *, gives_up: bool) -> ShardName | None:
        """Send an object that is not on its way yet; return the shard to which it goes.

        After a released Lease too: if we die before the object has its next shard, its last one
        can return, and would not see the children that have moved.  An object without owner
        `gives_up` if this keeps failing, and goes without: it must not stay without a shard.
        """
        step = plan_handover(self._snapshot, obj)
        if isinstance(step, Assign):
            return step.shard if await self._is_still(obj) else None
        if isinstance(step, Send) and gives_up:
            return step.shard
        written = await self._move(obj, _plan_to_send)
        if written is ON_ITS_WAY:
            self._leave(obj)
        return written.shard if isinstance(written, Send) else None

    async def _is_still(self, obj: PartialObject) -> bool:
        """Return whether nobody has written the object before its children were listed.

        Only the leader sends objects elsewhere, so only a standby, which might not see yet why,
        could take children from the shard that has the object since.
        """
        if self._mover.takes:
            return True
        try:
            now = await read(self._mover.objects, self._main, obj.metadata.ref)
        except (ApiError, InvalidObject):
            now = None
        is_still = (
            now is not None and now.metadata.resource_version == obj.metadata.resource_version
        )
        if not is_still:
            self._leave(obj)
        return is_still

    async def _move_child(self, parent: PartialObject, goal: ShardName, listed: Child) -> None:
        resource, child = listed
        key = ObjectKey(self._snapshot.name, resource.id, child.metadata.ref)
        listed_on = self._snapshot.owner_of(child)

        def decide(snapshot: RingSnapshot, obj: PartialObject) -> Step:
            if controller_of(obj) != parent.metadata.uid:
                return Keep("its controller has changed")
            position = position_of(snapshot, obj, goal)
            if position.current not in {listed_on, goal}:
                self._leave(parent)
                return Keep("another replica moves it, to another shard")
            return next_step(position, snapshot.members, Role.CONTROLLED)

        await self._write(resource, child, decide, is_due=True)
        if key in self._failures and not self._failures.is_stubborn(key):
            self._leave(parent, self._failures.wait(key))

    def _complete(
        self, snapshot: RingSnapshot, obj: PartialObject, *, goal: ShardName, gives_up: bool
    ) -> Step:
        """Return the step for an object whose children are on its goal."""
        step = plan_main(snapshot, obj)
        if not isinstance(step, Assign):
            return step
        if gives_up:
            is_ready = snapshot.members.standing_of(goal) is Standing.AVAILABLE
        else:
            is_ready = plan_handover(snapshot, obj) == Assign(goal)
        if is_ready:
            return Assign(goal)
        self._leave(obj)
        return Keep("its children are on another shard")

    async def _move(self, obj: PartialObject, decide: Decide) -> Step | None:
        step = await self._write(self._main, obj, decide)
        if step is None or step == SPEC_CHANGED:
            self._leave(obj, self._failures.wait(self._key(obj)))
        return step

    async def _write(
        self, resource: Resource, obj: PartialObject, decide: Decide, *, is_due: bool = False
    ) -> Step | None:
        """Move an object or a child; None if it could not be written.

        Other shards make other decisions.  With another spec, other objects can be controlled.
        """

        def by_this_spec(snapshot: RingSnapshot, now: PartialObject) -> Step:
            is_same = snapshot.ring.metadata.generation == self._snapshot.ring.metadata.generation
            return decide(snapshot, now) if is_same else SPEC_CHANGED

        move, name = self._mover.move, self._snapshot.name
        return await move(name, resource, obj, by_this_spec, is_due=is_due)

    def _leave(self, obj: PartialObject, seconds: float = 0.0) -> None:
        """Leave what is left of an object to the next attempt, in so many seconds or later."""
        ref = obj.metadata.ref
        self._left[ref] = max(BACKOFF.base, seconds, self._left.get(ref, 0.0))

    def _key(self, obj: PartialObject) -> ObjectKey:
        return ObjectKey(self._snapshot.name, self._main.id, obj.metadata.ref)


def _plan_to_send(snapshot: RingSnapshot, obj: PartialObject) -> Step:
    """Return the step for an object before its children move: it is not assigned yet."""
    step = plan_handover(snapshot, obj)
    return ON_ITS_WAY if isinstance(step, Assign) else step

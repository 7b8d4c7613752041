"""Take single objects of main resources one step on, and before each what it controls.

One transfer takes many objects of one resource at once, so that what they control is listed once
(docs/protocol.md, "Moving objects").
"""

from collections.abc import Iterator, Mapping
from functools import partial

from sharder.api.meta import PartialObject
from sharder.api.resource import Resource
from sharder.api.ring import ControlledResource, RingResource
from sharder.controllers.movement.batch import batch
from sharder.controllers.movement.cover import MAX_NAMESPACES
from sharder.controllers.movement.failures import Failures, HeldBack
from sharder.controllers.movement.moves import Decide, Mover
from sharder.controllers.movement.waiting import BACKOFF, UNKNOWN, Flow, Subject
from sharder.errors import ApiError, InvalidObject, NotFound
from sharder.names import ObjectRef, ShardName
from sharder.plan import Assign, Keep, Step, next_step, position_of
from sharder.planner import Promises, plan_owned
from sharder.ports import Objects
from sharder.snapshot import RingSnapshot, Role


class Transfer:
    """Moves objects that nobody works on after what they control; by one snapshot."""

    def __init__(
        self, snapshot: RingSnapshot, *, objects: Objects, mover: Mover, failures: Failures
    ) -> None:
        self.fault: str | None = None
        """What the ring's strategy did wrong first."""
        self._snapshot = snapshot
        self._objects = objects
        self._mover = mover
        self._failures = failures
        self._promises = Promises(snapshot)
        self._stuck = dict[str, float]()

    async def run(
        self, main: Resource, found: list[PartialObject], shards: Mapping[ObjectRef, ShardName]
    ) -> dict[ObjectRef, float]:
        """Take each object one step on; one that fails is kept back and no other.

        Args:
            main: The resource of the objects.
            found: The objects as they are now.
            shards: Who has let go of each, as far as it is known.

        Returns:
            Those that wait for what they control, and for how many seconds.
        """
        try:
            return await self._run(main, found, shards)
        except BaseException:
            self._promises.give_back()
            raise

    async def _run(
        self, main: Resource, found: list[PartialObject], shards: Mapping[ObjectRef, ShardName]
    ) -> dict[ObjectRef, float]:
        placed = {obj.metadata.uid: obj for obj in found if isinstance(self._plan(obj), Assign)}
        for entry in self._snapshot.resources:
            if entry.id == main.id and placed:
                await self._move_controlled(entry, placed, self._left(placed, shards))
        follow = partial(plan_owned, self._snapshot)
        async with batch(self._mover.limit) as writes:
            for obj in found:
                uid = obj.metadata.uid
                decide = self._promises.keep if uid in placed else follow
                if uid not in self._stuck:
                    await writes.add(self._move(main, obj, decide, uid))
        return {
            o.metadata.ref: self._stuck[uid] for uid, o in placed.items() if uid in self._stuck
        }

    def _plan(self, obj: PartialObject) -> Step:
        step = self._promises.plan(obj)
        if isinstance(step, Keep) and step.fault:
            self.fault = self.fault or step.why
        return step

    def _left(
        self, placed: Mapping[str, PartialObject], shards: Mapping[ObjectRef, ShardName]
    ) -> set[ShardName]:
        """Return the shards on which something may lie that `placed` control.

        Who let go first, and who has got the object since and is gone.
        """
        left = set[ShardName]()
        for obj in placed.values():
            both = {shards[obj.metadata.ref], self._snapshot.owner_of(obj) or UNKNOWN}
            left |= both - {UNKNOWN} or {UNKNOWN}
        return left

    async def _move_controlled(
        self, entry: RingResource, owners: Mapping[str, PartialObject], shards: set[ShardName]
    ) -> None:
        """Move what `owners` control and still lies on `shards`, which they have left."""
        # Where it is not known who has let go, what was controlled may lie anywhere.
        names = "" if UNKNOWN in shards else ",".join(sorted(shards))
        labels = f"{self._snapshot.owner_label} in ({names})" if names else ""
        for controlled in entry.controlled_resources:
            if self._snapshot.roles[controlled.id] is not Role.CONTROLLED:
                continue
            try:
                await self._move_followers(controlled, owners, labels)
            except NotFound:
                # Nothing of it exists that the owners would have to wait for.
                continue

    async def _move_followers(
        self, controlled: ControlledResource, owners: Mapping[str, PartialObject], labels: str
    ) -> None:
        resource = await self._objects.find(controlled.id)
        async with batch(self._mover.limit) as writes:
            for namespace in _namespaces_of(resource, owners):
                children = self._objects.of(resource, labels, namespace=namespace).stream()
                async for child in children:
                    reference = child.metadata.controller
                    if reference is not None and reference.uid in owners:
                        decide = partial(self._follow, owners[reference.uid])
                        await writes.add(self._move(resource, child, decide, reference.uid))

    async def _move(
        self, resource: Resource, obj: PartialObject, decide: Decide, owner_uid: str
    ) -> None:
        """Move an owner or what it controls; a failure keeps that owner back and no other."""
        try:
            await self._mover.move(self._snapshot, resource, obj, decide)
        except (ApiError, InvalidObject, HeldBack):
            subject = Subject(Flow(self._snapshot.name, resource.id), obj.metadata.ref)
            seconds = max(BACKOFF.base, self._failures.wait(subject))
            self._stuck[owner_uid] = max(seconds, self._stuck.get(owner_uid, 0.0))

    def _follow(self, owner: PartialObject, child: PartialObject) -> Step:
        reference = child.metadata.controller
        if reference is None or reference.uid != owner.metadata.uid:
            return Keep("somebody else controls it by now")
        desired = self._promises.goal_of(owner)
        position = position_of(self._snapshot, child, desired)
        return next_step(position, self._snapshot.members, Role.CONTROLLED)


def _namespaces_of(resource: Resource, owners: Mapping[str, PartialObject]) -> Iterator[str]:
    """Yield where to look for what the owners control; the empty one stands for everywhere."""
    namespaces = {owner.metadata.namespace for owner in owners.values()}
    if not resource.namespaced or "" in namespaces or len(namespaces) > MAX_NAMESPACES:
        yield ""
    else:
        yield from sorted(namespaces)

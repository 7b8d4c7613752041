"""Move objects that were let go, and before each what it controls.

One transfer takes many objects of one resource at once, so that what they control is listed once
(docs/protocol.md, "Moving objects").
"""

from functools import partial

from sharder.api.meta import PartialObject
from sharder.api.ring import ControlledResource, RingResource
from sharder.controllers.batch import batch
from sharder.controllers.moves import Decide, Mover
from sharder.errors import ApiError, InvalidObject, NotFound
from sharder.keys import main_key
from sharder.names import GroupResource, ObjectRef, ShardName
from sharder.plan import Keep, Step, next_step, position_of
from sharder.planner import plan_main
from sharder.ports import Objects, Resource
from sharder.snapshot import RingSnapshot, Role

UNKNOWN = ShardName("")
"""Stands for the shard of an object that was asked to let go while it had no owner."""


class Transfer:
    """Moves objects that were let go, after what they control; by one snapshot."""

    def __init__(
        self, snapshot: RingSnapshot, *, objects: Objects, mover: Mover, limit: int
    ) -> None:
        self.error: ApiError | InvalidObject | None = None
        self._snapshot = snapshot
        self._objects = objects
        self._mover = mover
        self._limit = limit
        self._stuck = set[str]()
        self._unread = set[ObjectRef]()

    async def run(
        self, main: GroupResource, released: dict[ObjectRef, ShardName]
    ) -> dict[ObjectRef, ShardName]:
        """Move each object that has no owner any more; others need nothing.

        Returns:
            Those that could not be moved, for another attempt; `error` says why.
        """
        resource = await self._objects.find(main)
        unowned = await self._read(resource, released)
        for entry in self._snapshot.ring.spec.resources:
            if entry.id == main:
                await self._move_controlled(entry, unowned, set(released.values()))
        decide = partial(plan_main, self._snapshot)
        async with batch(self._limit) as writes:
            for uid, obj in unowned.items():
                if uid not in self._stuck:
                    await writes.add(self._move(resource, obj, decide, uid))
        stuck = self._unread | {unowned[uid].metadata.ref for uid in self._stuck}
        return {ref: shard for ref, shard in released.items() if ref in stuck}

    async def _read(
        self, resource: Resource, released: dict[ObjectRef, ShardName]
    ) -> dict[str, PartialObject]:
        """Return, by uid, the objects that are there and have no owner."""
        store, found = self._objects.of(resource), dict[str, PartialObject]()

        async def read(ref: ObjectRef) -> None:
            try:
                obj = await store.get(ref)
            except NotFound:
                return
            except (ApiError, InvalidObject) as error:
                self.error = error
                self._unread.add(ref)
                return
            if self._snapshot.selects(obj) and self._snapshot.owner_of(obj) is None:
                found[obj.metadata.uid] = obj

        async with batch(self._limit) as reads:
            for ref in released:
                await reads.add(read(ref))
        return found

    async def _move_controlled(
        self, entry: RingResource, owners: dict[str, PartialObject], shards: set[ShardName]
    ) -> None:
        """Move what `owners` control and still lies on `shards`, which they have left."""
        if not owners:
            return
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
        self, controlled: ControlledResource, owners: dict[str, PartialObject], labels: str
    ) -> None:
        resource = await self._objects.find(controlled.id)
        async with batch(self._limit) as writes:
            async for child in self._objects.of(resource).stream(labels):
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
        except (ApiError, InvalidObject) as error:
            self.error = error
            self._stuck.add(owner_uid)

    def _follow(self, owner: PartialObject, child: PartialObject) -> Step:
        reference = child.metadata.controller
        if reference is None or reference.uid != owner.metadata.uid:
            return Keep("somebody else controls it by now")
        desired = self._snapshot.wanted(main_key(owner))
        position = position_of(self._snapshot, child, desired)
        return next_step(position, self._snapshot.members, Role.CONTROLLED)

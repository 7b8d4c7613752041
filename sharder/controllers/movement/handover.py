"""Hand over single objects that were released, are unassigned, or failed before.

Each object is read again before a decision, so outdated events do no harm.  A pass hands over the
objects that it has listed itself; the queue does not touch these meanwhile (docs/protocol.md,
"Moving objects").
"""

from collections.abc import Collection
from typing import Final

from sharder.controllers.counting.unread_parts import BACKOFF as READ_BACKOFF
from sharder.controllers.movement.children import ChildrenFollower
from sharder.controllers.movement.handover_queue import ACKNOWLEDGED_SECONDS, HandoverQueue
from sharder.controllers.movement.mover import AGAIN_SECONDS, Mover, Superseded
from sharder.controllers.movement.parent_transfer import ParentTransfer
from sharder.controllers.ports import Ports
from sharder.controllers.scope import ObjectKey, Part, read
from sharder.core.api.meta import ObjectMeta, PartialObject, Resource
from sharder.core.errors import ApiError, InvalidObject, NotFound
from sharder.core.movement.desired import directed_of
from sharder.core.movement.planner import is_stranded, stranded_labels
from sharder.core.names import ObjectRef
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.runtime.task_pool import batch

LIST_FROM: Final = 10
"""From this number of objects on, they are listed, not read one by one."""


class Handover:
    """Moves pending objects one step, many of a resource at once."""

    def __init__(self, ports: Ports, mover: Mover, pending: HandoverQueue) -> None:
        self._ports = ports
        self._mover = mover
        self._failures = mover.failures
        self._pending = pending

    def forget(self, whole: Part) -> None:
        """Forget a resource that was removed from the ring."""
        self._failures.forget(whole)
        self._mover.table.forget(whole)

    async def carry_over(self, part: Part) -> float | None:
        """Move all due objects; return the seconds until the next one is due.

        Raises:
            ApiError: a read that all due objects need failed; the objects stay pending.
        """
        snapshot = self._ports.cache.snapshot(part.ring)
        if snapshot is None or part.resource not in snapshot.roles:
            self.forget(part.whole)
            return None
        refs = self._pending.take(part)
        left = dict.fromkeys(refs, ACKNOWLEDGED_SECONDS)
        try:
            left = await self._move(snapshot, part, refs) if refs else {}
        except Superseded:
            if self._ports.cache.snapshot(part.ring) is snapshot:
                # There is no newer snapshot: we lost leadership, or do not see the Leases.
                left = dict.fromkeys(refs, AGAIN_SECONDS)
        except ApiError:
            left = dict.fromkeys(refs, READ_BACKOFF.base)
            raise
        finally:
            self._pending.finish(part, refs, left)
        return self._pending.next_in(part)

    async def rescue(
        self, snapshot: RingSnapshot, resource: Resource, found: Collection[PartialObject]
    ) -> Collection[ObjectRef]:
        """Move main objects that no shard works on, after their children.

        Those that the queue has in work are left to it.  Returns those that are left; the queue
        retries them.

        Raises:
            Superseded: we lost leadership, or the ring has changed.
        """
        key = Part(snapshot.name, resource.id)
        refs = set(self._pending.start(key, [obj.metadata.ref for obj in found]))
        left = dict[ObjectRef, float]()
        try:
            mine = [obj for obj in found if obj.metadata.ref in refs]
            left = await self._transfer(snapshot, resource, mine)
        except ApiError as error:
            self._mover.written.failed(snapshot.name, error)
            left = dict.fromkeys(refs, READ_BACKOFF.base)
        finally:
            self._pending.finish(key, refs, left)
        return left

    async def _move(
        self, snapshot: RingSnapshot, part: Part, refs: Collection[ObjectRef]
    ) -> dict[ObjectRef, float]:
        """Move the objects one step; return the objects that wait, and for how many seconds."""
        mover = self._mover
        backing_off = {ref: self._failures.wait(part.key(ref)) for ref in refs}
        left = {ref: seconds for ref, seconds in backing_off.items() if seconds > 0}
        resource = await mover.objects.find(part.resource)
        due = DueObjects(snapshot, part, resource, mover)
        found = await due.read([ref for ref in refs if ref not in left])
        if not mover.takes:  # all replicas agree where these go
            unassigned = [obj for obj in found if snapshot.owner_of(obj) is None]
            found = [obj for obj in unassigned if directed_of(snapshot, obj)]
        if snapshot.roles[resource.id] is not Role.CONTROLLED:
            return left | await self._transfer(snapshot, resource, found)
        children = [(resource, obj) for obj in found]
        return left | await ChildrenFollower(snapshot, mover).run(children)

    async def _transfer(
        self, snapshot: RingSnapshot, resource: Resource, found: Collection[PartialObject]
    ) -> dict[ObjectRef, float]:
        """Move main objects, except those that wait until their last shard has stopped."""
        waits = {obj.metadata.ref: self._mover.wait(snapshot, resource, obj) for obj in found}
        left = {ref: seconds for ref, seconds in waits.items() if seconds > 0}
        transfer = ParentTransfer(snapshot, resource, self._mover)
        return left | await transfer.run([o for o in found if o.metadata.ref not in left])


class DueObjects:
    """Reads objects of a part, to find those that no shard works on, or that failed before."""

    def __init__(
        self, snapshot: RingSnapshot, part: Part, resource: Resource, mover: Mover
    ) -> None:
        self._snapshot = snapshot
        self._part = part
        self._resource = resource
        self._mover = mover
        self._failures = mover.failures
        self._unsettled = dict[ObjectRef, PartialObject | None]()
        """The objects that need a step; None: it could not be read."""

    async def read(self, refs: Collection[ObjectRef]) -> list[PartialObject]:
        """Return the objects that need a step; record that the others are settled.

        Raises:
            ApiError: the objects could not be listed.
        """
        listed = self._to_list(refs)
        async with batch(self._mover.limit) as reads:
            if listed:
                await reads.add(self._list(listed))
            for ref in refs:
                if ref not in listed:
                    await reads.add(self._read(ref))
        for ref in refs:
            if ref not in self._unsettled:
                self._failures.over(self._key(ref))
                self._mover.table.settle(self._key(ref))
        return [obj for obj in self._unsettled.values() if obj is not None]

    def _to_list(self, refs: Collection[ObjectRef]) -> set[ObjectRef]:
        """Return the objects to list, not those that failed, which can have an owner.

        Objects of controlled resources are always read: most of them have no owner label, so the
        list would be long.
        """
        is_listed = self._snapshot.roles[self._resource.id] is not Role.CONTROLLED
        listed = {ref for ref in refs if is_listed and self._key(ref) not in self._failures}
        return listed if len(listed) >= LIST_FROM else set()

    async def _list(self, refs: set[ObjectRef]) -> None:
        labels = stranded_labels(self._snapshot)
        store = self._mover.objects.of(self._resource, labels, namespace=self._part.namespace)
        listed = await store.list(lambda obj: obj.metadata.ref in refs)
        for obj in listed.items:
            self._note(obj)

    async def _read(self, ref: ObjectRef) -> None:
        try:
            self._note(await read(self._mover.objects, self._resource, ref))
        except NotFound:
            pass
        except (ApiError, InvalidObject) as error:
            self._unsettled[ref] = None
            about = PartialObject(
                api_version=self._resource.api_version,
                kind=self._resource.kind,
                metadata=ObjectMeta(name=ref.name, namespace=ref.namespace),
            )
            await self._failures.failed(self._key(ref), about, error)

    def _note(self, obj: PartialObject) -> None:
        is_needed = (
            is_stranded(self._snapshot, obj) or self._key(obj.metadata.ref) in self._failures
        )
        if is_needed and self._snapshot.selects(obj, self._snapshot.roles[self._resource.id]):
            self._unsettled[obj.metadata.ref] = obj

    def _key(self, ref: ObjectRef) -> ObjectKey:
        return self._part.key(ref)

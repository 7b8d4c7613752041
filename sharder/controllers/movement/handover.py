"""Hand over single objects that were released, are unassigned, or failed before.

Each object is read again before a decision, so outdated events do no harm.  A pass hands over the
objects that it has listed itself; the queue does not touch these meanwhile (docs/protocol.md,
"Moving objects").
"""

from collections.abc import Awaitable, Collection
from contextlib import suppress
from functools import partial
from typing import Final

from sharder.controllers.movement.children import ChildrenFollower
from sharder.controllers.movement.handover_queue import HandoverQueue
from sharder.controllers.movement.mover import Mover, Superseded
from sharder.controllers.movement.parent_transfer import ParentTransfer
from sharder.controllers.ports import Ports
from sharder.controllers.scope import Part, read
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

    async def carry_over(self, part: Part) -> float | None:
        """Move all due objects; return the seconds until the next one is due.

        Raises:
            ApiError: a read that all due objects need failed; the objects stay pending.
        """
        snapshot = self._ports.cache.snapshot(part.ring)
        if snapshot is None or part.resource not in snapshot.roles:
            self._failures.forget(part.whole)
            return None
        with suppress(Superseded):  # we lost leadership, or do not see the Leases
            due = self._pending.due(part)
            await self._pending.work(part, due, partial(self._move, snapshot, part))
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
        objects = {obj.metadata.ref: obj for obj in found}
        transfer = ParentTransfer(snapshot, resource, self._mover)

        def move(refs: Collection[ObjectRef]) -> Awaitable[dict[ObjectRef, float]]:
            return transfer.run([objects[ref] for ref in refs])

        try:
            return await self._pending.work(Part(snapshot.name, resource.id), objects, move)
        except ApiError as error:
            self._mover.written.failed(snapshot.name, error)
            return objects

    async def _move(
        self, snapshot: RingSnapshot, part: Part, refs: Collection[ObjectRef]
    ) -> dict[ObjectRef, float]:
        """Move the objects one step that no shard works on, or that failed before.

        The others are settled, except those that could not be read.  Returns the objects that
        wait, and for how many seconds.
        """
        mover, role, due = self._mover, snapshot.roles[part.resource], list[PartialObject]()
        waits = ((ref, self._failures.wait(part.key(ref))) for ref in refs)
        left = {ref: seconds for ref, seconds in waits if seconds > 0}
        tried = [ref for ref in refs if ref not in left]
        resource = await mover.objects.find(part.resource)
        found = await self._read(snapshot, part, resource, tried)
        for key in map(part.key, tried):
            obj = found.get(key.ref)
            is_needed = obj is not None and (is_stranded(snapshot, obj) or key in self._failures)
            if obj is not None and is_needed and snapshot.selects(obj, role):
                due.append(obj)
            elif obj is not None or key.ref not in found:
                self._failures.over(key)
                mover.table.settle(key)
        if not mover.takes:  # all replicas agree where these go
            unassigned = [obj for obj in due if snapshot.owner_of(obj) is None]
            due = [obj for obj in unassigned if directed_of(snapshot, obj)]
        if role is not Role.CONTROLLED:
            return left | await ParentTransfer(snapshot, resource, mover).run(due)
        children = [(resource, obj) for obj in due]
        return left | await ChildrenFollower(snapshot, mover).run(children)

    async def _read(
        self,
        snapshot: RingSnapshot,
        part: Part,
        resource: Resource,
        refs: Collection[ObjectRef],
    ) -> dict[ObjectRef, PartialObject | None]:
        """Return the objects that exist, None for those that could not be read.

        Those that failed are not listed, since they can have an owner, nor are objects of
        controlled resources: most of them have no owner label, so the list would be long.

        Raises:
            ApiError: the objects could not be listed.
        """
        found, objects = dict[ObjectRef, PartialObject | None](), self._mover.objects
        is_listed = snapshot.roles[resource.id] is not Role.CONTROLLED
        listed = {ref for ref in refs if is_listed and part.key(ref) not in self._failures}

        async def read_one(ref: ObjectRef) -> None:
            try:
                found[ref] = await read(objects, resource, ref)
            except NotFound:
                pass
            except (ApiError, InvalidObject) as error:
                found[ref] = None
                await self._failures.failed(part.key(ref), _named(resource, ref), error)

        async with batch(self._mover.limit) as reads:
            for ref in refs:
                if len(listed) < LIST_FROM or ref not in listed:
                    await reads.add(read_one(ref))
            if len(listed) >= LIST_FROM:
                labels = stranded_labels(snapshot)
                store = objects.of(resource, labels, namespace=part.namespace)
                several = await store.list(lambda obj: obj.metadata.ref in listed)
                found.update((obj.metadata.ref, obj) for obj in several.items)
        return found


def _named(resource: Resource, ref: ObjectRef) -> PartialObject:
    """Return what is known of an object that could not be read."""
    meta = ObjectMeta(name=ref.name, namespace=ref.namespace)
    return PartialObject(api_version=resource.api_version, kind=resource.kind, metadata=meta)

"""Hand over single objects that were released, are unassigned, or failed before.

Each object is read again before a decision, so outdated events do no harm.  A pass hands over the
objects that it has listed itself; the queue does not touch these meanwhile (docs/protocol.md,
"Moving objects").
"""

from collections import defaultdict
from collections.abc import Collection, Sequence

from sharder.controllers.counting.unread_parts import BACKOFF as READ_BACKOFF
from sharder.controllers.movement.dependents import DependentsFollower
from sharder.controllers.movement.failures import Failures
from sharder.controllers.movement.handover_queue import ACKNOWLEDGED_SECONDS, HandoverQueue
from sharder.controllers.movement.mover import AGAIN_SECONDS, Mover, Superseded
from sharder.controllers.movement.owner_transfer import OwnerTransfer
from sharder.controllers.movement.written_steps import ResyncStats
from sharder.controllers.ports import Ports
from sharder.controllers.scope import ObjectKey, Part, ResourceKey, read
from sharder.core.api.meta import ObjectMeta, PartialObject, Resource
from sharder.core.errors import ApiError, InvalidObject, NotFound
from sharder.core.movement.desired import is_directed
from sharder.core.movement.planner import is_free
from sharder.core.names import ObjectRef, RingName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.ports import Objects
from sharder.runtime.task_pool import batch


class Handover:
    """Moves pending objects one step, many of a resource at once."""

    def __init__(self, ports: Ports, mover: Mover, pending: HandoverQueue) -> None:
        self._ports = ports
        self._mover = mover
        self._failures = mover.failures
        self._pending = pending
        self._reported_faults: dict[RingName, RingSnapshot] = {}
        """The snapshot with which an error of the ring's strategy was last reported."""

    async def run(self) -> None:
        """Hand over objects until cancelled."""
        await self._pending.run(self.carry_over)

    def forget(self, resource_key: ResourceKey) -> None:
        """Forget a resource that was removed from the ring."""
        self._pending.forget(resource_key)
        self._failures.forget(resource_key)
        self._reported_faults.pop(resource_key.ring, None)

    async def carry_over(self, part: Part) -> None:
        """Move all due objects; the queue knows when the next one is due.

        Raises:
            ApiError: a read that all due objects need failed; the objects stay pending.
        """
        snapshot = self._ports.cache.snapshot(part.ring)
        if snapshot is None or part.resource not in snapshot.roles:
            self.forget(part.resource_key)
            return
        refs = self._pending.take(part)
        left, is_tried = dict.fromkeys(refs, ACKNOWLEDGED_SECONDS), True
        try:
            left = await self._move(snapshot, part.resource_key, refs) if refs else {}
        except Superseded:
            is_tried = False
            if self._ports.cache.snapshot(part.ring) is snapshot:
                # There is no newer snapshot: we lost leadership, or do not see the Leases.
                left = dict.fromkeys(refs, AGAIN_SECONDS)
        except ApiError:
            left = dict.fromkeys(refs, READ_BACKOFF.base)
            raise
        finally:
            self._pending.finish(part, refs, left, held=is_tried)

    async def rescue(
        self,
        snapshot: RingSnapshot,
        resource: Resource,
        found: Sequence[PartialObject],
        stats: ResyncStats,
    ) -> set[ObjectRef]:
        """Move objects of a leading resource that no shard works on, after their dependents.

        Those that the queue has in work are left to it.

        Returns:
            The objects that have got a shard; the queue retries the others, if that can help.

        Raises:
            Superseded: we lost leadership, or the ring has changed.
        """
        key, refs = ResourceKey(snapshot.name, resource.id), [obj.metadata.ref for obj in found]
        work = self._pending.start(key, refs)
        mine = {ref for of_part in work.values() for ref in of_part}
        transfer = OwnerTransfer(
            snapshot, objects=self._ports.objects, mover=self._mover, stats=stats
        )
        left = dict[ObjectRef, float]()
        try:
            left = await transfer.run(resource, [o for o in found if o.metadata.ref in mine])
        except ApiError as error:
            stats.failed(error)
            left = dict.fromkeys(mine, READ_BACKOFF.base)
        finally:
            for part, of_part in work.items():
                again = {ref: left[ref] for ref in of_part if ref in left}
                self._pending.finish(part, of_part, again)
        return transfer.assigned

    async def _move(
        self, snapshot: RingSnapshot, resource_key: ResourceKey, refs: Collection[ObjectRef]
    ) -> dict[ObjectRef, float]:
        """Move the objects one step; return the objects that wait, and for how many seconds."""
        objects, mover = self._ports.objects, self._mover
        left = {
            ref: seconds
            for ref in refs
            if (seconds := self._failures.wait(ObjectKey(resource_key, ref))) > 0
        }
        resource = await objects.find(resource_key.resource)
        reader = ObjectReader(
            snapshot, resource, objects=objects, failures=self._failures, limit=mover.limit
        )
        found = await reader.run([ref for ref in refs if ref not in left])
        for ref in reader.settled:
            mover.unassigned.settled(ObjectKey(resource_key, ref))
        if not mover.takes:
            found = [obj for obj in found if is_directed(snapshot, obj)]
        if snapshot.roles[resource_key.resource] is Role.CONTROLLED:
            follower = DependentsFollower(snapshot, objects=objects, mover=mover)
            await follower.run(resource, found)
            return left
        left |= {
            obj.metadata.ref: seconds
            for obj in found
            if (seconds := mover.wait(snapshot, resource, obj))
        }
        stats = ResyncStats()
        transfer = OwnerTransfer(snapshot, objects=objects, mover=mover, stats=stats)
        left |= await transfer.run(resource, [o for o in found if o.metadata.ref not in left])
        if stats.fault is not None:
            self._report_fault(snapshot, stats.fault)
        return left

    def _report_fault(self, snapshot: RingSnapshot, fault: str) -> None:
        """Report only the first error: each object can cause another one."""
        known = self._reported_faults.get(snapshot.name)
        if known is None or not known.places_like(snapshot):
            self._reported_faults[snapshot.name] = snapshot
            self._ports.on_problem(snapshot.name, "strategy", fault)


LIST_FROM = 10
"""From this number of objects in one request on, they are listed, not read one by one.

Objects of controlled resources are always read: most of them have no owner label, so the list
would be long.
"""


class ObjectReader:
    """Finds the objects of a resource that need a step: without a shard, or failed before."""

    def __init__(
        self,
        snapshot: RingSnapshot,
        resource: Resource,
        *,
        objects: Objects,
        failures: Failures,
        limit: int,
    ) -> None:
        """`limit` bounds the concurrent requests."""
        self._snapshot = snapshot
        self._resource = resource
        self._objects = objects
        self._failures = failures
        self._limit = limit
        self._role = snapshot.roles[resource.id]
        self._found = list[PartialObject]()
        self.settled = set[ObjectRef]()
        """The objects that were read, or are gone, and need no step."""

    async def run(self, refs: Collection[ObjectRef]) -> list[PartialObject]:
        """Return the objects that need a step.

        Raises:
            ApiError: the objects of a namespace could not be listed.
        """
        single = set(refs)
        async with batch(self._limit) as reads:
            for namespace, many in self._to_list(refs).items():
                single -= many
                await reads.add(self._list(namespace, many))
            for ref in single:
                await reads.add(self._read(ref))
        return self._found

    def _to_list(self, refs: Collection[ObjectRef]) -> dict[str, set[ObjectRef]]:
        """Return the objects to list, by namespace, empty for all; objects that failed are read.

        Those can have an owner.
        """
        by_namespace = defaultdict[str, set[ObjectRef]](set)
        if self._role is not Role.CONTROLLED:
            for ref in refs:
                if self._key(ref) not in self._failures:
                    by_namespace[ref.namespace if self._snapshot.is_split else ""].add(ref)
        return {name: many for name, many in by_namespace.items() if len(many) >= LIST_FROM}

    async def _list(self, namespace: str, refs: set[ObjectRef]) -> None:
        available = ",".join(sorted(self._snapshot.members.available))
        labels = f"{self._snapshot.owner_label} notin ({available})"
        store = self._objects.of(self._resource, labels, namespace=namespace)
        listed = await store.list(lambda obj: obj.metadata.ref in refs)
        found = list(filter(self._needs_step, listed.items))
        self._found += found
        self.settled |= refs - {obj.metadata.ref for obj in found}

    async def _read(self, ref: ObjectRef) -> None:
        key = self._key(ref)
        try:
            obj = await read(self._objects, self._resource, ref)
        except (ApiError, InvalidObject) as error:
            if not isinstance(error, NotFound):
                await self._failures.failed(key, self._unread(ref), error)
                return
        else:
            if self._needs_step(obj):
                self._found.append(obj)
                return
        self._failures.over(key)
        self.settled.add(ref)

    def _needs_step(self, obj: PartialObject) -> bool:
        is_needed = is_free(self._snapshot, obj) or self._key(obj.metadata.ref) in self._failures
        return is_needed and self._snapshot.selects(obj, self._role)

    def _key(self, ref: ObjectRef) -> ObjectKey:
        return ObjectKey(ResourceKey(self._snapshot.name, self._resource.id), ref)

    def _unread(self, ref: ObjectRef) -> PartialObject:
        """Return an unreadable object as the object of an Event."""
        return PartialObject(
            api_version=self._resource.api_version,
            kind=self._resource.kind,
            metadata=ObjectMeta(name=ref.name, namespace=ref.namespace),
        )

"""Hand over single objects that were released, are unassigned, or failed before.

Each object is read again before a decision, so outdated events do no harm.  Its dependents are
relabelled first, then it is assigned, so that the new shard never sees children that belong to the
old shard (docs/protocol.md, "Moving objects").
"""

from collections import defaultdict
from collections.abc import Collection

from sharder.controllers.counting.resync_stats import ResyncStats
from sharder.controllers.counting.unread_parts import BACKOFF as READ_BACKOFF
from sharder.controllers.movement.handover.handover_queue import (
    ACKNOWLEDGED_SECONDS,
    HandoverQueue,
)
from sharder.controllers.movement.ports import Ports
from sharder.controllers.movement.writes.dependents import DependentsFollower
from sharder.controllers.movement.writes.failures import Failures
from sharder.controllers.movement.writes.mover import AGAIN_SECONDS, Mover, Superseded
from sharder.controllers.movement.writes.owner_transfer import OwnerTransfer
from sharder.controllers.permissions import read
from sharder.controllers.scope import ObjectKey, Part, ResourceKey
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

    def __init__(
        self, ports: Ports, *, mover: Mover, failures: Failures, pending: HandoverQueue
    ) -> None:
        self._ports = ports
        self._mover = mover
        self._failures = failures
        self._pending = pending
        self._reported_faults: dict[RingName, RingSnapshot] = {}
        """The snapshot with which an error of the ring's strategy was last reported."""
        self._failed_reads = defaultdict[Part, int](int)
        """Failed reads in a row that affect all objects of a part."""

    async def run(self) -> None:
        """Hand over objects until cancelled."""
        await self._pending.run(self.carry_over)

    def forget(self, resource_key: ResourceKey) -> None:
        """Forget a resource that was removed from the ring."""
        self._pending.forget(resource_key)
        self._failures.forget(resource_key)
        for part in [part for part in self._failed_reads if part.resource_key == resource_key]:
            del self._failed_reads[part]
        self._reported_faults.pop(resource_key.ring, None)

    async def carry_over(self, part: Part) -> float | None:
        """Move all due objects; return the seconds until the next one is due.

        Raises:
            ApiError: a read that all due objects need failed; the objects stay pending.
        """
        snapshot = self._ports.cache.snapshot(part.ring)
        if snapshot is None or part.resource not in snapshot.roles:
            self.forget(part.resource_key)
            return None
        await self._take_on(snapshot, part)
        return self._pending.next_in(part)

    async def _take_on(self, snapshot: RingSnapshot, part: Part) -> None:
        refs = self._pending.take(part)
        left, are_tried = dict.fromkeys(refs, ACKNOWLEDGED_SECONDS), True
        try:
            if refs:
                waits = self._backing_off(part, refs)
                due = [ref for ref in refs if ref not in waits]
                left = waits | await self._move(snapshot, part.resource_key, due)
        except Superseded:
            are_tried = False
            if self._ports.cache.snapshot(part.ring) is snapshot:
                # There is no newer snapshot: we lost leadership, or do not see the Leases.
                left = dict.fromkeys(refs, AGAIN_SECONDS)
        except ApiError:
            self._failed_reads[part] += 1
            seconds = READ_BACKOFF.delay(self._failed_reads[part], self._ports.rng)
            left = dict.fromkeys(refs, seconds)
            raise
        else:
            self._failed_reads.pop(part, None)
        finally:
            self._pending.put_back(part, left, are_tried=are_tried)

    def _backing_off(self, part: Part, refs: Collection[ObjectRef]) -> dict[ObjectRef, float]:
        """Return the objects that must not be written yet, and for how many seconds."""
        waits = {ref: self._failures.wait(ObjectKey(part.resource_key, ref)) for ref in refs}
        return {ref: seconds for ref, seconds in waits.items() if seconds > 0}

    async def _move(
        self, snapshot: RingSnapshot, resource_key: ResourceKey, refs: Collection[ObjectRef]
    ) -> dict[ObjectRef, float]:
        """Move the objects one step; return the objects that wait, and for how many seconds."""
        objects, mover, failures = self._ports.objects, self._mover, self._failures
        resource = await objects.find(resource_key.resource)
        reader = ObjectReader(
            snapshot, resource, objects=objects, failures=failures, limit=mover.limit
        )
        found = await reader.run(refs)
        for ref in set(refs) - {obj.metadata.ref for obj in found}:
            mover.unassigned.settled(ObjectKey(resource_key, ref))
        if not mover.takes:
            found = [obj for obj in found if is_directed(snapshot, obj)]
        if snapshot.roles[resource_key.resource] is Role.CONTROLLED:
            follower = DependentsFollower(snapshot, objects=objects, mover=mover)
            await follower.run(resource, found)
            return {}
        early = {
            obj.metadata.ref: seconds
            for obj in found
            if (seconds := mover.wait(snapshot, resource, obj))
        }
        due = [obj for obj in found if obj.metadata.ref not in early]
        stats = ResyncStats()
        transfer = OwnerTransfer(snapshot, objects=objects, mover=mover, stats=stats)
        left = early | await transfer.run(resource, due)
        if stats.fault is not None:
            self._report_fault(snapshot, stats.fault)
        return left

    def _report_fault(self, snapshot: RingSnapshot, fault: str) -> None:
        """Report only the first error: each object can cause another one."""
        known = self._reported_faults.get(snapshot.name)
        if known is None or not known.places_like(snapshot):
            self._reported_faults[snapshot.name] = snapshot
            self._ports.on_fault(snapshot.name, fault)


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

    async def run(self, refs: Collection[ObjectRef]) -> list[PartialObject]:
        """Return the objects that need a step; record that the others need none.

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
        self._found += filter(self._needs_step, listed.items)

    async def _read(self, ref: ObjectRef) -> None:
        key = self._key(ref)
        try:
            obj = await read(self._objects, self._resource, ref)
        except NotFound:
            self._failures.over(key)
        except (ApiError, InvalidObject) as error:
            await self._failures.failed(key, self._unread(ref), error)
        else:
            if self._needs_step(obj):
                self._found.append(obj)
            else:
                self._failures.over(key)

    def _needs_step(self, obj: PartialObject) -> bool:
        is_needed = is_free(self._snapshot, obj) or self._key(obj.metadata.ref) in self._failures
        return is_needed and self._snapshot.selects(obj, self._role)

    def _key(self, ref: ObjectRef) -> ObjectKey:
        return ObjectKey(ResourceKey(self._snapshot.name, self._resource.id), ref)

    def _unread(self, ref: ObjectRef) -> PartialObject:
        """Return an unreadable object as the object of an Event."""
        group, version = self._resource.id.group, self._resource.version
        return PartialObject(
            api_version=f"{group}/{version}" if group else version,
            kind=self._resource.kind,
            metadata=ObjectMeta(name=ref.name, namespace=ref.namespace),
        )

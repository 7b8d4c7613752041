"""The unassigned and the draining objects of one resource of a ring, and what they need."""

from collections.abc import Callable, Collection
from sys import intern
from typing import NamedTuple, TypeAlias

from sharder.controllers.movement.backlog import Backlog, Limit
from sharder.controllers.movement.drain_budget import DrainBudget
from sharder.controllers.movement.handover_queue import HandoverQueue
from sharder.controllers.movement.unassigned import UNKNOWN, UnassignedObjects
from sharder.controllers.scope import ListRequest, ObjectKey, ResourceKey
from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.movement.desired import choose
from sharder.core.names import ObjectRef, RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.ports import Changed, Listed, Removed
from sharder.runtime.clock import Clock
from sharder.runtime.reflector import POLL_SECONDS

Event: TypeAlias = Listed[PartialObject] | Changed[PartialObject] | Removed[PartialObject]


class Limits(NamedTuple):
    """How many objects all resources of a ring can remember together."""

    unassigned: Limit
    draining: Limit


class ObjectBacklog:
    """Unassigned and draining objects in scope."""

    def __init__(
        self,
        resource_key: ResourceKey,
        role: Role,
        *,
        snapshot: Callable[[], RingSnapshot | None],
        pending: HandoverQueue,
        clock: Clock,
        limits: Limits,
        drains: DrainBudget,
        known: UnassignedObjects,
        on_assigned: Callable[[RingName, ShardName | None, ShardName], None],
    ) -> None:
        """Start empty.

        Args:
            resource_key: The ring and the resource.
            role: The role of the resource in the ring.
            snapshot: Returns the ring's current snapshot, None if it is gone.
            pending: The queue of objects to check.
            clock: For the ages.
            limits: How many objects are remembered.
            drains: The budgets, which follow the draining objects.
            known: Gets the releases.
            on_assigned: Called with the move of which no watch shows the end.
        """
        self.role = role
        self._resource_key = resource_key
        self._snapshot = snapshot
        self._pending = pending
        self._drains = drains
        self._known = known
        self._on_assigned = on_assigned
        self._clock = clock
        self._drains_expected_until = 0.0
        """Until when drains are expected."""
        self.expect_drains()
        self.unassigned = known.follow(resource_key, limits.unassigned)
        self.draining = Backlog(
            clock,
            limits.draining,
            lambda ref, seen: drains.seen(ObjectKey(resource_key, ref), seen),
        )

    def is_in_scope(self, obj: PartialObject) -> bool:
        """Return whether the object is in the ring's scope.

        An object of a controlled resource also needs a controller.  Nothing is stored about
        objects out of scope, however many there are.
        """
        snapshot = self._snapshot()
        if snapshot is None or not snapshot.selects(obj, self.role):
            return False
        return self.role is not Role.CONTROLLED or obj.metadata.controller is not None

    def pick_unassigned(self, obj: PartialObject) -> PartialObject | None:
        """Remember a listed object; return its name, None if it needs no more attention.

        It is remembered at once, so that lists that are read at the same time share the limit.
        """
        if not self.is_in_scope(obj):
            return None
        ref = ObjectRef(intern(obj.metadata.namespace), obj.metadata.name)
        if not self._known.note(self._key(ref)):
            return None
        return PartialObject(metadata=ObjectMeta(name=ref.name, namespace=ref.namespace))

    def pick_draining(self, obj: PartialObject) -> PartialObject | None:
        """Remember a listed object and return it, None if it is out of scope or over the limit."""
        is_kept = self.is_in_scope(obj) and self.draining.note(
            obj.metadata.ref, self._shard_of(obj)
        )
        return obj if is_kept else None

    def take_unassigned(self, within: ListRequest, event: Event) -> None:
        """Update the unassigned objects, and enqueue them."""
        match event:
            case Listed(items):
                refs = [obj.metadata.ref for obj in items]
                gone = self.unassigned.replace(within, dict.fromkeys(refs, UNKNOWN))
                self._settle(gone)
                self._enqueue(refs)
            case Changed(obj) if self.is_in_scope(obj):
                self.pick_unassigned(obj)
                self._enqueue([obj.metadata.ref])
            case Changed(obj) | Removed(obj):
                self._settle([obj.metadata.ref])

    def take_draining(self, within: ListRequest, event: Event) -> None:
        """Update the draining objects; an object that stops draining is released."""
        match event:
            case Listed(items):
                now = {obj.metadata.ref: self._shard_of(obj) for obj in items}
                gone = self.draining.replace(within, now)
                for ref, shard in gone.items():
                    self._known.not_draining(self._key(ref), shard)
                self._pending.add(self._resource_key, gone, are_released=True)
            case Changed(obj) if self.is_in_scope(obj):
                self.draining.note(obj.metadata.ref, self._shard_of(obj))
            case Changed(obj):
                self.draining.drop(obj.metadata.ref)
            case Removed(obj):
                self._release(obj)
                self.draining.drop(obj.metadata.ref)

    def keep_namespaces(self, namespaces: frozenset[str]) -> None:
        """Forget objects in other namespaces."""
        for backlog in (self.unassigned, self.draining):
            backlog.keep(lambda ref: not ref.namespace or ref.namespace in namespaces)

    def expect_drains(self) -> None:
        """Expect drains: objects might belong on other shards now."""
        self._drains_expected_until = self._clock.monotonic() + POLL_SECONDS

    def is_moving(self) -> bool:
        """Return whether objects can be released at any moment."""
        is_expecting = self._clock.monotonic() < self._drains_expected_until
        return (
            is_expecting
            or bool(self.draining.count())
            or self._drains.is_handing_over(self._resource_key.ring)
        )

    def recheck(self) -> None:
        """Enqueue all unassigned objects."""
        self._enqueue(list(self.unassigned))

    def clear(self) -> None:
        """Forget everything."""
        for backlog in (self.unassigned, self.draining):
            backlog.keep(lambda _: False)

    def _enqueue(self, refs: list[ObjectRef]) -> None:
        """Enqueue remembered objects if there is an available shard."""
        snapshot = self._snapshot()
        if snapshot is not None and snapshot.members.available:
            known = [ref for ref in refs if ref in self.unassigned]
            self._pending.add(self._resource_key, known, are_released=False)

    def _release(self, obj: PartialObject) -> None:
        """Record the end of a drain, and enqueue the object.

        `obj` is the object before this write, but with the resource version of the write.  The
        webhook assigns an object that leads no others in the same write.  No watch shows this
        assignment, but the shard depends only on the ring, or else is in the `next` of the drain.
        """
        snapshot, owner = self._snapshot(), self._shard_of(obj)
        key = self._key(obj.metadata.ref)
        self._pending.add(self._resource_key, [key.ref], are_released=True)
        if snapshot is None:
            return
        self._known.released(snapshot, key, owner, obj.metadata)
        if self.role is Role.MAIN and snapshot.selects(obj):
            follows = snapshot.tally is None
            target = choose(snapshot, obj).shard if follows else snapshot.direction_of(obj)
            if target is not None and target != owner:  # otherwise the drain was withdrawn
                self._on_assigned(key.ring, owner or None, target)

    def _settle(self, refs: Collection[ObjectRef]) -> None:
        """Record objects that have an owner again, or are deleted."""
        self._pending.settle(self._resource_key, refs)
        for ref in refs:
            key = self._key(ref)
            self._drains.arrived(key)
            self._known.settled(key)

    def _key(self, ref: ObjectRef) -> ObjectKey:
        return ObjectKey(self._resource_key, ref)

    def _shard_of(self, obj: PartialObject) -> ShardName:
        """Return the shard; one that releases in two writes can remove the owner label first."""
        snapshot = self._snapshot()
        owner = None if snapshot is None else snapshot.owner_of(obj)
        return owner or self.draining.shard(obj.metadata.ref) or UNKNOWN

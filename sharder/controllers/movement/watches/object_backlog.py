"""The unassigned and the draining objects of one resource of a ring, and what they need."""

from collections.abc import Callable, Collection, Mapping
from sys import intern
from typing import NamedTuple, TypeAlias

from sharder.controllers.movement.handover.handover_queue import HandoverQueue
from sharder.controllers.movement.waiting.backlog import Backlog, Limit
from sharder.controllers.movement.waiting.orphans import UNSEEN_SECONDS
from sharder.controllers.movement.writes.dependents_list import UNKNOWN
from sharder.controllers.movement.writes.drain_budget import OpenDrains
from sharder.controllers.ownerless import Ownerless
from sharder.controllers.scope import ListRequest, ObjectKey, ResourceKey
from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.movement.acknowledgement import is_certain
from sharder.core.movement.desired import choose, is_misdirected
from sharder.core.names import ObjectRef, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.ports import Changed, Listed, Removed
from sharder.runtime.clock import Clock
from sharder.runtime.reflector import POLL_SECONDS

Event: TypeAlias = Listed[PartialObject] | Changed[PartialObject] | Removed[PartialObject]


class Limits(NamedTuple):
    """How many objects all resources of a ring can remember together."""

    unassigned: Limit
    draining: Limit


class _Ended(NamedTuple):
    """The end of a drain: an acknowledgement, or a withdrawal."""

    before: ObjectMeta | None
    """The object before the write that ended it, with the resource version of that write; None if
    only a list has shown the end."""
    until: float
    """When to forget the end."""


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
        drains: OpenDrains,
        ownerless: Ownerless,
    ) -> None:
        """Start empty.

        Args:
            resource_key: The ring and the resource.
            role: The role of the resource in the ring.
            snapshot: Returns the ring's current snapshot, None if it is gone.
            pending: The queue of objects to check.
            clock: For the ages.
            limits: How many objects are remembered.
            drains: The budget, which knows the recent drains.
            ownerless: Measures how long released objects have no owner.
        """
        self.role = role
        self._resource_key = resource_key
        self._snapshot = snapshot
        self._pending = pending
        self._drains = drains
        self._ownerless = ownerless
        self._clock = clock
        self._ended: dict[ObjectRef, _Ended] = {}
        """Objects whose drain has ended, the oldest first."""
        self._overflowed = clock.monotonic()
        """When an unassigned object was last seen that the limit excluded."""
        self._listed = clock.monotonic()
        """When draining objects were last listed."""
        self._drains_expected_until = 0.0
        """Until when drains are expected."""
        self.expect_drains()
        self.unassigned = Backlog(clock, limits.unassigned)
        self.draining = Backlog(clock, limits.draining, drains)

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
        if not self.unassigned.note(ref, self._counts_for(ref)):
            self._overflowed = self._clock.monotonic()
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
                shards = {ref: self._counts_for(ref) for ref in refs}
                gone = self.unassigned.replace(within, shards)
                self._note_overflow(refs)
                self._settle(gone)
                self._enqueue(refs)
            case Changed(obj) if self.is_in_scope(obj):
                self.pick_unassigned(obj)
                self._enqueue([obj.metadata.ref])
            case Changed(obj) | Removed(obj):
                self.unassigned.drop(obj.metadata.ref)
                self._settle([obj.metadata.ref])

    def take_draining(self, within: ListRequest, event: Event) -> None:
        """Update the draining objects; an object that stops draining is released."""
        match event:
            case Listed(items):
                now = {obj.metadata.ref: self._shard_of(obj) for obj in items}
                self._release(self.draining.replace(within, now), None, self._listed)
                self._listed = self._clock.monotonic()
            case Changed(obj) if self.is_in_scope(obj):
                self.draining.note(obj.metadata.ref, self._shard_of(obj))
            case Changed(obj):
                self.draining.drop(obj.metadata.ref)
            case Removed(obj):
                # The event has the object before this write, but with the resource version of the
                # write.
                ref, before = obj.metadata.ref, obj.metadata
                self._release({ref: self._shard_of(obj)}, before, self._clock.monotonic())
                self._note_release(obj, before.resource_version)
                self.draining.drop(ref)
                self._drains.seen_over(ref)

    def keep_namespaces(self, namespaces: frozenset[str]) -> None:
        """Forget objects in other namespaces."""
        for backlog in (self.unassigned, self.draining):
            backlog.keep(lambda ref: not ref.namespace or ref.namespace in namespaces)

    def wait(self, obj: PartialObject) -> float:
        """Return for how many seconds an unassigned object has to wait.

        No shard works on an object that was acknowledged.  For other objects the time counts from
        when we first saw them unassigned; an object that cannot be remembered waits for the next
        pass.  A leading object also waits if it cannot go to the shard in its `next`: another
        replica, which does not know this yet, might be moving its dependents there.
        """
        ref, now = obj.metadata.ref, self._clock.monotonic()
        if self._was_released(obj, now) and not self._is_contested(obj):
            return 0.0
        since = self.unassigned.since(ref)
        if since is None:
            since = now if self.unassigned.note(ref, UNKNOWN) else self._overflowed
            self._enqueue([ref])
        return max(0.0, since + UNSEEN_SECONDS - now)

    def _is_contested(self, obj: PartialObject) -> bool:
        snapshot = self._snapshot()
        if snapshot is None or self.role is not Role.LEADING:
            return False
        return is_misdirected(snapshot, obj)

    def _was_released(self, obj: PartialObject, now: float) -> bool:
        """Return whether an unassigned object was draining when we last saw it with an owner.

        If drains are watched, the object must still have the version of the write that ended the
        drain, and this write must have changed nothing else.  An object whose drain was withdrawn,
        or that had another owner since, was written once more, and a user who replaces an object
        does not know its labels.  Where the end was not seen, the `next` annotation must be left.
        """
        ref, meta, snapshot = obj.metadata.ref, obj.metadata, self._snapshot()
        if snapshot is None:
            return False
        ended = self._ended.get(ref)
        is_known = ended is not None and ended.until > now
        if ended is not None and is_known and ended.before is not None:
            is_last = ended.before.resource_version == meta.resource_version
            return is_last and is_certain(ended.before, meta, snapshot)
        if snapshot.next_annotation not in (meta.annotations or {}):
            return False
        if is_known or self._drains.asked(ref) is not None:
            return True
        # If drains are polled, the object itself can be newer than the last list.
        is_recent = now < self._listed + UNSEEN_SECONDS
        return is_recent and ref in self.draining and not snapshot.is_draining(obj)

    def expect_drains(self) -> None:
        """Expect drains: objects might belong on other shards now."""
        self._drains_expected_until = self._clock.monotonic() + POLL_SECONDS

    def is_moving(self) -> bool:
        """Return whether objects can be released at any moment."""
        is_expecting = self._clock.monotonic() < self._drains_expected_until
        return is_expecting or bool(self.draining.count()) or self._drains.any()

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
            known = {ref: self._drains.asked(ref) for ref in refs if ref in self.unassigned}
            released = {ref: shard for ref, shard in known.items() if shard is not None}
            self._pending.add_released(self._resource_key, released)
            self._pending.add_unassigned(
                self._resource_key, [ref for ref in known if ref not in released]
            )

    def _note_overflow(self, refs: Collection[ObjectRef]) -> None:
        """Record that an unassigned object could not be remembered."""
        if any(ref not in self.unassigned for ref in refs):
            self._overflowed = self._clock.monotonic()

    def _release(
        self, shards: Mapping[ObjectRef, ShardName], before: ObjectMeta | None, seen: float
    ) -> None:
        """Record drains that ended, and enqueue the objects.

        `seen` is when the drains were last seen open, or seen to end.
        """
        now = self._clock.monotonic()
        while self._ended and next(iter(self._ended.values())).until <= now:
            del self._ended[next(iter(self._ended))]
        for ref in shards:
            self._ended.pop(ref, None)
            self._ended[ref] = _Ended(before, seen + UNSEEN_SECONDS)
        self._pending.add_released(self._resource_key, shards)

    def _note_release(self, obj: PartialObject, version: str) -> None:
        """Measure the hand-over of an object, and count where it goes.

        The webhook assigns an object that leads no others in the write that acknowledges its
        drain.  No watch shows this assignment, but the shard depends only on the ring, or else is
        in the `next` annotation of the drain.
        """
        snapshot = self._snapshot()
        if snapshot is None or self.role is Role.CONTROLLED or not snapshot.selects(obj):
            return
        owner, expected = self._shard_of(obj), None
        if self.role is Role.MAIN:
            follows = snapshot.tally is None
            expected = choose(snapshot, obj).shard if follows else snapshot.direction_of(obj)
        key = ObjectKey(self._resource_key, obj.metadata.ref)
        arrives = None if expected == owner else expected  # the drain was withdrawn
        self._ownerless.released(key, owner, version, arrives)

    def _settle(self, refs: Collection[ObjectRef]) -> None:
        """Record objects that have an owner again, or are deleted."""
        self._pending.settle(self._resource_key, refs)
        for ref in refs:
            self._drains.arrived(ref)
            self._ownerless.settled(ObjectKey(self._resource_key, ref))
            self._ended.pop(ref, None)

    def _counts_for(self, ref: ObjectRef) -> ShardName:
        """Return the shard for which an unassigned object still counts, until it is assigned."""
        released = self._ownerless.counts_for(ObjectKey(self._resource_key, ref))
        return released or self.draining.shard(ref) or self.unassigned.shard(ref) or UNKNOWN

    def _shard_of(self, obj: PartialObject) -> ShardName:
        """Return the shard; one that releases in two writes can remove the owner label first."""
        snapshot = self._snapshot()
        owner = None if snapshot is None else snapshot.owner_of(obj)
        return owner or self.draining.shard(obj.metadata.ref) or UNKNOWN

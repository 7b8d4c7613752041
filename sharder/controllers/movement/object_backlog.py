"""The unassigned and the draining objects of one resource of a ring, and what they need.

Drains that the shard does not acknowledge in time are reported.  No object is taken by force: the
shard might still work on it (docs/protocol.md, "Budgets").
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from sys import intern
from typing import NamedTuple, NoReturn, TypeAlias

from sharder.controllers.movement.handover_queue import HandoverQueue
from sharder.controllers.movement.mover import Mover
from sharder.controllers.movement.unassigned import UNKNOWN, Backlog, Limit, Seen
from sharder.controllers.ports import Ports
from sharder.controllers.scope import ObjectKey, ResourceKey, read
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import MovementSpec
from sharder.core.errors import ApiError, InvalidObject
from sharder.core.movement.desired import choose
from sharder.core.names import ObjectRef, RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.core.status.conditions import Troubled
from sharder.core.texts import parse_duration
from sharder.ports import Changed, Listed, Removed
from sharder.runtime.event_loop import in_slices
from sharder.runtime.reflector import POLL_SECONDS

Event: TypeAlias = Listed[PartialObject] | Changed[PartialObject] | Removed[PartialObject]
Listing: TypeAlias = Mapping[ObjectRef, ShardName]
"""The objects that the list of one request has shown, with their shards."""


class Limits(NamedTuple):
    """How many objects all resources of a ring can remember together."""

    unassigned: Limit
    draining: Limit


class ObjectBacklog:
    """Unassigned and draining objects in scope."""

    def __init__(
        self,
        ports: Ports,
        mover: Mover,
        pending: HandoverQueue,
        *,
        key: ResourceKey,
        role: Role,
        limits: Limits,
    ) -> None:
        """Start empty; `limits` says how many objects are remembered."""
        self.role = role
        self._resource_key = key
        self._ports = ports
        self._pending = pending
        self._drains = drains = mover.drains
        self._known = known = mover.unassigned
        self._clock = clock = ports.clock
        self._drains_expected_until = 0.0
        """Until when drains are expected."""
        self.expect_drains()
        self.unassigned = known.follow(key, limits.unassigned)
        self.draining = Backlog(
            clock,
            limits.draining,
            lambda ref, seen: drains.seen(ObjectKey(key, ref), seen),
        )

    def _snapshot(self) -> RingSnapshot | None:
        return self._ports.cache.snapshot(self._resource_key.ring)

    def is_in_scope(self, obj: PartialObject) -> bool:
        """Return whether the object is in the ring's scope.

        An object of a controlled resource also needs a controller.  Nothing is stored about
        objects out of scope, however many there are.
        """
        snapshot = self._snapshot()
        if snapshot is None or not snapshot.selects(obj, self.role):
            return False
        return self.role is not Role.CONTROLLED or obj.metadata.controller is not None

    def note_unassigned(self, obj: PartialObject) -> ShardName | None:
        """Remember an object; return `UNKNOWN`, or None if it needs no more attention."""
        if not self.is_in_scope(obj):
            return None
        ref = ObjectRef(intern(obj.metadata.namespace), obj.metadata.name)
        return UNKNOWN if self._known.note(self._key(ref)) else None

    def note_draining(self, obj: PartialObject) -> ShardName | None:
        """Remember an object; return its shard, None if it is out of scope or over the limit."""
        ref, shard = obj.metadata.ref, self._shard_of(obj)
        return shard if self.is_in_scope(obj) and self.draining.note(ref, shard) else None

    def take_unassigned(self, namespace: str, event: Event, listed: Listing) -> None:
        """Update the unassigned objects, and enqueue them; `listed` is what a list has shown."""
        match event:
            case Listed():
                self._settle(self.unassigned.replace(namespace, listed))
                self._enqueue(listed)
            case Changed(obj) if self.is_in_scope(obj):
                self.note_unassigned(obj)
                self._enqueue([obj.metadata.ref])
            case Changed(obj) | Removed(obj):
                self._settle([obj.metadata.ref])

    def take_draining(self, namespace: str, event: Event, listed: Listing) -> None:
        """Update the draining objects; an object that stops draining is released."""
        match event:
            case Listed():
                gone = self.draining.replace(namespace, listed)
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
        self._enqueue(self.unassigned)

    def clear(self) -> None:
        """Forget everything."""
        for backlog in (self.unassigned, self.draining):
            backlog.keep(lambda _: False)

    def _enqueue(self, refs: Iterable[ObjectRef]) -> None:
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
                # No watch shows this.
                self._ports.on_assigned(key.ring, owner or None, target)

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


OVERDUE = "DrainOverdue"
"""Reason of the Event."""

CHECK_SECONDS = 1.0
"""Seconds between two checks."""

MAX_EVENTS = 20
"""Limit on the Events of one check for a resource; the other drains follow at the next ones."""

Drains: TypeAlias = list[tuple[ObjectKey, Seen]]

_log = logging.getLogger(__name__)


class OverdueDrains:
    """Checks all drains every second."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._overdue: dict[RingName, Troubled] = {}
        self._told: dict[ObjectKey, float] = {}
        """Drains with an Event, by the time when they were first seen."""

    def of(self, ring: RingName) -> Troubled | None:
        """Return the overdue drains of a ring, None if there are none."""
        return self._overdue.get(ring)

    async def run(self, draining: Callable[[], Mapping[ResourceKey, Backlog]]) -> NoReturn:
        """Check the draining objects of each resource until cancelled."""
        while True:
            for key, seen in await self._scan(draining()):
                snapshot = self._ports.cache.snapshot(key.ring)
                if snapshot is not None:
                    await self._warn(snapshot, key, seen)
            await self._ports.clock.sleep(CHECK_SECONDS)

    async def _scan(self, backlogs: Mapping[ResourceKey, Backlog]) -> Drains:
        """Count overdue drains; return the first ones that have no Event."""
        # A drain that has ended is forgotten, even if the object is draining again.
        self._told = {
            key: since
            for key, since in self._told.items()
            if key.resource_key in backlogs and backlogs[key.resource_key].since(key.ref) == since
        }
        untold, found = Drains(), defaultdict[RingName, Drains](list)
        async for resource_key, backlog in in_slices(backlogs.items(), self._ports.clock):
            snapshot = self._ports.cache.snapshot(resource_key.ring)
            if snapshot is None or resource_key.resource not in snapshot.roles:
                continue  # its series are hidden, or soon will be
            drains = _overdue_of(snapshot, resource_key, backlog)
            overdue = self._ports.metrics.gauges["overdue_drains"]
            overdue.show(len(drains), resource_key.ring, *resource_key.resource)
            found[resource_key.ring] += drains
            untold += [drain for drain in drains if drain[0] not in self._told][:MAX_EVENTS]
        before, self._overdue = self._overdue, {r: _summary(found[r]) for r in found if found[r]}
        for ring in before.keys() | self._overdue.keys():
            if before.get(ring) != self._overdue.get(ring):
                self._ports.on_change(ring)
        return untold

    async def _warn(self, snapshot: RingSnapshot, key: ObjectKey, seen: Seen) -> None:
        try:
            resource = await self._ports.objects.find(key.resource)
            obj = await read(self._ports.objects, resource, key.ref)
        except (ApiError, InvalidObject) as error:
            fields = {"ring": snapshot.name, "object": str(key.ref), "error": str(error)}
            _log.debug("cannot read overdue drain", extra=fields)
            return
        self._told[key] = seen.since
        shard, seconds = snapshot.owner_of(obj), self._ports.clock.monotonic() - seen.since
        if shard is None or not snapshot.is_draining(obj):
            return
        text = (
            f"ring {snapshot.name}: shard {shard} has not acknowledged the drain "
            f"for {seconds:.0f}s (drainTimeout {snapshot.ring.spec.movement.drain_timeout}); "
            "inspect the shard, and restart it if it is stuck"
        )
        what = f"{key.resource} {key.ref}"
        fields = {"ring": snapshot.name, "object": what, "shard": shard}
        _log.warning("drain is overdue", extra=fields)
        await self._ports.recorder.warn(obj, OVERDUE, text)


def _summary(drains: Drains) -> Troubled:
    key, _ = min(drains, key=lambda drain: (drain[1].since, drain[0]))
    return Troubled(count=len(drains), first=f"{key.resource} {key.ref}")


def _overdue_of(snapshot: RingSnapshot, resource_key: ResourceKey, backlog: Backlog) -> Drains:
    seconds = timeout_of(snapshot.ring.spec.movement)
    if seconds <= 0:
        return []
    return [(ObjectKey(resource_key, ref), seen) for ref, seen in backlog.older_than(seconds)]


def timeout_of(spec: MovementSpec) -> float:
    """Return after how many seconds a drain is overdue; 0 means never, as for an invalid value."""
    try:
        return max(0.0, parse_duration(spec.drain_timeout).total_seconds())
    except ValueError:
        return 0.0

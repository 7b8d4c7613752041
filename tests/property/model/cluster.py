"""An API server in memory: revisions, compare and swap, admission, and logs to watch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
from msgspec import structs

from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import Conflict, NotFound, Rejected
from sharder.core.names import RING_LABEL, GroupResource, ObjectRef
from tests.property.model.core import (
    SELECTED,
    SHARDER,
    ControllerRing,
    MovementSpec,
    Operation,
    PlacementSpec,
    Review,
    RingSnapshot,
    RingSpec,
    ShardName,
    Step,
    Writer,
    is_held,
)
from tests.support.json_patch import admitted, written
from tests.support.rules import apply_merge_patch
from tests.support.values import CONFIGMAPS, DEMO, DRAIN, OWNER, ring

Place: TypeAlias = tuple[GroupResource, ObjectRef]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One write that a sharder has decided, with what it was decided from."""

    resource: GroupResource
    obj: PartialObject
    step: Step
    body: Json
    snapshot: RingSnapshot
    available: frozenset[ShardName]
    """The shards that can get objects, by the Leases that the sharder was shown."""
    read_at: int
    """Revision at which it read the other side of the controller reference."""
    lease_events: int
    """How many changes of Leases it had seen."""
    failed: frozenset[str]
    """What it could not write before, by uid."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A shard releases an object."""

    shard: ShardName


@dataclass(frozen=True, slots=True)
class Request:
    """A write by any other client."""


Cause: TypeAlias = Move | Acknowledgement | Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One committed write; without `old` a creation, without `new` a deletion."""

    resource: GroupResource
    old: PartialObject | None
    new: PartialObject | None
    cause: Cause
    offered: frozenset[ShardName] | None
    """The shards that admission chose from; None if the webhook was not called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseChange:
    """One committed write of a Lease."""

    old: Lease | None
    new: Lease | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a webhook makes of a request."""

    operations: Sequence[Operation]
    offered: frozenset[ShardName]


class Cluster:
    """Holds objects by metadata, and Leases; every commit is shown to the witnesses at once."""

    def __init__(self) -> None:
        self.revision = 0
        self.objects: dict[Place, PartialObject] = {}
        self.leases: dict[ObjectRef, Lease] = {}
        self.log: list[Change] = []
        self.lease_log: list[LeaseChange] = []
        self.relabelled: dict[str, int] = {}
        """Revision at which an object's owner label last changed, by uid."""
        self.webhook: Callable[[Review], Answer] | None = None
        self.ring: ControllerRing = ring()
        self.is_meddled_with = False
        """Another webhook removes the labels that a write adds."""
        self.is_refusing = False
        """Another webhook, which is called after ours, refuses everything."""
        self.refused = 0
        """Requests that were answered by ours and did not happen."""
        self.witnesses: list[Callable[[Change], None]] = []
        self.lease_witnesses: list[Callable[[LeaseChange], None]] = []

    def pause(self, *, is_paused: bool) -> None:
        """Edit the ring: whether anything moves that has a working owner."""
        movement = MovementSpec(paused=is_paused)
        if movement != self.ring.spec.movement:
            self._edit(structs.replace(self.ring.spec, movement=movement))

    def _edit(self, spec: RingSpec) -> None:
        meta = self.ring.metadata
        meta = structs.replace(meta, generation=meta.generation + 1)
        self.ring = structs.replace(self.ring, metadata=meta, spec=spec)

    def place_by(self, placement: PlacementSpec) -> None:
        """Edit the ring: how objects are placed."""
        self._edit(structs.replace(self.ring.spec, placement=placement))

    def get(self, resource: GroupResource, ref: ObjectRef) -> PartialObject:
        obj = self.objects.get((resource, ref))
        if obj is None:
            raise NotFound(f"{resource} {ref}")
        return obj

    def objects_of(self, resource: GroupResource) -> list[PartialObject]:
        return [obj for (of, _), obj in sorted(self.objects.items()) if of == resource]

    def create(self, resource: GroupResource, obj: PartialObject, writer: Writer) -> PartialObject:
        fresh = _with_version(obj, f"{obj.metadata.name}-{self.revision + 1}", "")
        return self._commit(resource, None, fresh, writer, Request())

    def update(self, resource: GroupResource, obj: PartialObject, writer: Writer) -> PartialObject:
        """Replace the object in the state that `obj` names by its resourceVersion."""
        old = self.get(resource, obj.metadata.ref)
        _guard(old.metadata.resource_version, obj.metadata.resource_version)
        return self._commit(resource, old, obj, writer, Request())

    def patch(
        self, resource: GroupResource, ref: ObjectRef, body: Json, *, cause: Cause, writer: Writer
    ) -> PartialObject:
        """Merge `body`; without a resourceVersion in it the write is not guarded."""
        old = self.get(resource, ref)
        new = written(old, body)
        _guard(old.metadata.resource_version, new.metadata.resource_version)
        return self._commit(resource, old, new, writer, cause)

    def delete(self, resource: GroupResource, ref: ObjectRef) -> None:
        old = self.objects.pop((resource, ref))
        self.revision += 1
        self._record(resource, old, None, Request(), None)

    def returned(self, shard: ShardName, since: int) -> bool:
        """Return whether a shard held a Lease of the ring at or after a place in `lease_log`."""
        return any(
            change.new.metadata.name == shard
            for change in self.lease_log[since:]
            if change.new is not None and is_held(change.new) and is_of_the_ring(change.new)
        )

    def write_lease(self, lease: Lease) -> None:
        """Store a Lease, unless it was written since `lease` was read; "" is for a new one."""
        ref = lease.metadata.ref
        old = self.leases.get(ref)
        _guard(
            "" if old is None else old.metadata.resource_version, lease.metadata.resource_version
        )
        self.revision += 1
        uid = f"{ref.name}-{self.revision}" if old is None else old.metadata.uid
        meta = structs.replace(lease.metadata, uid=uid, resource_version=str(self.revision))
        self.leases[ref] = structs.replace(lease, metadata=meta)
        self._record_lease(old, self.leases[ref])

    def patch_lease(self, ref: ObjectRef, body: Json) -> None:
        if ref not in self.leases:
            raise NotFound(str(ref))
        merged = apply_merge_patch(msgspec.to_builtins(self.leases[ref]), body)
        self.write_lease(msgspec.convert(merged, Lease))

    def delete_lease(self, ref: ObjectRef, *, resource_version: str | None = None) -> None:
        if ref not in self.leases:
            raise NotFound(str(ref))
        if resource_version is not None:
            _guard(self.leases[ref].metadata.resource_version, resource_version)
        self.revision += 1
        self._record_lease(self.leases.pop(ref), None)

    def _commit(
        self,
        resource: GroupResource,
        old: PartialObject | None,
        new: PartialObject,
        writer: Writer,
        cause: Cause,
    ) -> PartialObject:
        if old is not None and new == old:
            return old
        new, offered = self._admit(resource, old, new, writer)
        if self.is_refusing:
            self.refused += 1
            raise Rejected("another webhook denied the request")
        if self.is_meddled_with:
            new = _without_additions(old, new)
        new = _named(new, self.revision)
        if old is None and (resource, new.metadata.ref) in self.objects:
            raise Conflict("it exists")
        self.revision += 1
        uid = new.metadata.uid if old is None else old.metadata.uid
        new = _with_version(new, uid, str(self.revision))
        self.objects[resource, new.metadata.ref] = new
        if old is None or old.metadata.label(OWNER) != new.metadata.label(OWNER):
            self.relabelled[uid] = self.revision
        self._record(resource, old, new, cause, offered)
        return new

    def _admit(
        self,
        resource: GroupResource,
        old: PartialObject | None,
        new: PartialObject,
        writer: Writer,
    ) -> tuple[PartialObject, frozenset[ShardName] | None]:
        if self.webhook is None or new.metadata.namespace not in SELECTED:
            return new, None
        review = Review(
            operation="CREATE" if old is None else "UPDATE",
            uid=str(self.revision),
            resource=resource,
            obj=new,
            old=old,
            writer=writer,
        )
        if old is None and _is_created_by_its_shard(resource, new, writer):
            return new, None
        answer = self.webhook(review)
        if old is not None and not _is_shown_to_the_webhook(old, new, writer):
            assert not answer.operations, "the webhook is not called for this, yet it would act"
        return admitted(new, answer.operations), answer.offered

    def _record(
        self,
        resource: GroupResource,
        old: PartialObject | None,
        new: PartialObject | None,
        cause: Cause,
        offered: frozenset[ShardName] | None,
    ) -> None:
        change = Change(resource=resource, old=old, new=new, cause=cause, offered=offered)
        self.log.append(change)
        for witness in self.witnesses:
            witness(change)

    def _record_lease(self, old: Lease | None, new: Lease | None) -> None:
        change = LeaseChange(old=old, new=new)
        self.lease_log.append(change)
        for witness in self.lease_witnesses:
            witness(change)


def is_of_the_ring(lease: Lease) -> bool:
    """Return whether the Lease bears the ring's label."""
    return lease.metadata.label(RING_LABEL) == DEMO


def _guard(current: str, expected: str) -> None:
    if current != expected:
        raise Conflict("it was written since")


def _with_version(obj: PartialObject, uid: str, version: str) -> PartialObject:
    meta = structs.replace(obj.metadata, uid=uid, resource_version=version)
    return structs.replace(obj, metadata=meta)


def _named(obj: PartialObject, number: int) -> PartialObject:
    """Name an object that has only a generateName yet, as the API server does."""
    if obj.metadata.name:
        return obj
    name = f"{obj.metadata.generate_name}{number}"
    return structs.replace(obj, metadata=structs.replace(obj.metadata, name=name))


def _is_created_by_its_shard(resource: GroupResource, new: PartialObject, writer: Writer) -> bool:
    """Return whether no webhook is called for a create; Leases are in the namespace default."""
    is_shard = new.metadata.label(OWNER) == writer.pod_name and writer.account
    return bool(is_shard) and resource == CONFIGMAPS and writer.account.startswith("default:")


def _is_shown_to_the_webhook(old: PartialObject, new: PartialObject, writer: Writer) -> bool:
    """Judge an update as the webhook configuration does."""
    if writer.username == SHARDER.username:
        return False
    if not old.metadata.label(OWNER):
        return True
    before, after = old.metadata.labels or {}, new.metadata.labels or {}
    return any(before.get(label) != after.get(label) for label in (OWNER, DRAIN))


def _without_additions(old: PartialObject | None, new: PartialObject) -> PartialObject:
    """Remove owner and drain labels that `new` has and `old` has not, or has other."""
    before = {} if old is None else old.metadata.labels or {}
    kept = {
        key: value
        for key, value in (new.metadata.labels or {}).items()
        if key not in {OWNER, DRAIN} or before.get(key) == value
    }
    return structs.replace(new, metadata=structs.replace(new.metadata, labels=kept))

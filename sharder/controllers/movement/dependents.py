"""Find controlled objects, and move them to the shards of their owners."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from sharder.controllers.movement.failures import BackingOff
from sharder.controllers.movement.mover import Mover
from sharder.controllers.movement.unassigned import UNKNOWN
from sharder.controllers.scope import MAX_NAMESPACES, ObjectKey, ResourceKey, naming_the_rule, read
from sharder.core.api.meta import OwnerReference, PartialObject, Resource
from sharder.core.errors import ApiError, InvalidObject, NotFound
from sharder.core.movement.planner import Owners, is_free, plan_controlled, plan_main
from sharder.core.movement.step import Keep, Step
from sharder.core.names import GroupResource, ObjectRef, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.ports import Objects
from sharder.runtime.task_pool import batch

CONCURRENT_LISTS = 8
"""Lists at the same time: each holds a page."""


class Dependent(NamedTuple):
    """A controlled object, as it was listed."""

    resource: Resource
    obj: PartialObject
    controller: str
    """The uid of its controller."""


async def list_dependents(
    snapshot: RingSnapshot,
    objects: Objects,
    main: Resource,
    parents: Mapping[str, PartialObject],
    shards: Set[ShardName],
) -> Mapping[str, list[Dependent]]:
    """Return the dependents of objects of a main resource, by the uid of their controller.

    Args:
        snapshot: The ring.
        objects: Lists the dependents.
        main: The resource of the parents.
        parents: The objects by uid.
        shards: The shards on which the dependents can be; with `UNKNOWN`, any shard or none.

    Raises:
        ApiError: a list failed.
    """
    names = "" if UNKNOWN in shards else ",".join(sorted(shards))
    labels = f"{snapshot.owner_label} in ({names})" if names else ""
    found = defaultdict[str, list[Dependent]](list)

    async def read(resource: Resource, namespace: str) -> None:
        # It is not served any more, so there are none.
        with naming_the_rule(resource.id), suppress(NotFound):
            async for obj in objects.of(resource, labels, namespace=namespace).stream():
                reference = obj.metadata.controller
                if reference is not None and reference.uid in parents:
                    found[reference.uid].append(Dependent(resource, obj, reference.uid))

    async with batch(CONCURRENT_LISTS) as lists:
        for controlled in _controlled_by(snapshot, main.id) if parents else ():
            with naming_the_rule(controlled), suppress(NotFound):
                resource = await objects.find(controlled)
                for namespace in _namespaces_of(snapshot, resource, parents):
                    await lists.add(read(resource, namespace))
    return found


def _controlled_by(snapshot: RingSnapshot, main: GroupResource) -> Iterator[GroupResource]:
    for entry in snapshot.resources:
        for controlled in entry.controlled_resources if entry.id == main else ():
            if snapshot.roles[controlled.id] is Role.CONTROLLED:
                yield controlled.id


def _namespaces_of(
    snapshot: RingSnapshot, resource: Resource, parents: Mapping[str, PartialObject]
) -> Iterator[str]:
    """Yield the namespaces of the dependents; the empty one stands for all."""
    namespaces = {parent.metadata.namespace for parent in parents.values()}
    most = MAX_NAMESPACES if snapshot.is_split else 1
    if not resource.namespaced or "" in namespaces or len(namespaces) > most:
        yield ""
    else:
        yield from sorted(namespaces)


class DependentsFollower:
    """Reads each owner of controlled objects once, and plans with one snapshot."""

    def __init__(self, snapshot: RingSnapshot, *, objects: Objects, mover: Mover) -> None:
        self._snapshot = snapshot
        self._objects = objects
        self._mover = mover
        self._failures = mover.failures
        self._owners = Owners()
        self._waiting = set[str]()
        """Uids of owners that are between two shards: their dependents move with them."""
        self._unread = dict[str, ApiError | InvalidObject]()

    async def run(self, controlled: Resource, found: Sequence[PartialObject]) -> None:
        """Move each object one step; a failure affects no other object.

        Raises:
            ApiError: the resource of an owner is unknown.
        """
        references = {
            reference.uid: (reference, obj.metadata.namespace)
            for obj in found
            if (reference := obj.metadata.controller) is not None
        }
        by_kind = await self._main_kinds({(r.group, r.kind) for r, _ in references.values()})
        async with batch(self._mover.limit) as reads:
            for reference, namespace in references.values():
                main = by_kind.get((reference.group, reference.kind))
                if main is not None:
                    await reads.add(self._learn(main, reference, namespace))
        async with batch(self._mover.limit) as writes:
            for obj in found:
                await writes.add(self._move(controlled, obj))

    async def _main_kinds(self, wanted: Set[tuple[str, str]]) -> dict[tuple[str, str], Resource]:
        """Return the main resources by group and kind; any of them can be a controller.

        Raises:
            ApiError: one of the `wanted` resources could not be discovered.
        """
        by_kind, unknown = dict[tuple[str, str], Resource](), list[ApiError]()
        for entry in self._snapshot.resources:
            try:
                main = await self._objects.find(entry.id)
            except NotFound:
                # There are no such objects that could have an owner label.
                continue
            except ApiError as error:
                unknown.append(error)
                continue
            by_kind[main.id.group, main.kind] = main
        if unknown and not wanted <= by_kind.keys():
            raise unknown[0]
        return by_kind

    async def _learn(self, main: Resource, reference: OwnerReference, namespace: str) -> None:
        """Record where an owner is; for a deleted owner the hash of its key counts."""
        ref = ObjectRef(namespace if main.namespaced else "", reference.name)
        try:
            owner = await read(self._objects, main, ref)
        except NotFound:
            return
        except (ApiError, InvalidObject) as error:
            self._unread[reference.uid] = error
            return
        if owner.metadata.uid != reference.uid:
            return
        if not self._snapshot.selects(owner):
            self._owners.leave(self._snapshot, owner)
        elif is_free(self._snapshot, owner) and (
            self._snapshot.leads(owner) or self._mover.wait(self._snapshot, main, owner)
        ):
            self._waiting.add(reference.uid)
        else:
            self._owners.note(self._snapshot, owner, plan_main(self._snapshot, owner))

    async def _move(self, resource: Resource, obj: PartialObject) -> None:
        reference = obj.metadata.controller
        uid = "" if reference is None else reference.uid
        key = ObjectKey(ResourceKey(self._snapshot.name, resource.id), obj.metadata.ref)
        unread = self._unread.get(uid)
        if unread is not None:
            await self._failures.failed(key, obj, unread)
        elif uid not in self._waiting:  # otherwise it moves with its controller
            with suppress(ApiError, InvalidObject, BackingOff):  # it is retried after its back-off
                await self._mover.move(
                    self._snapshot.name, resource, obj, partial(self._plan, uid)
                )

    def _plan(self, uid: str, snapshot: RingSnapshot, obj: PartialObject) -> Step:
        if not snapshot.places_like(self._snapshot):
            return Keep("the ring has changed since the owners were read")
        reference = obj.metadata.controller
        if ("" if reference is None else reference.uid) != uid:
            return Keep("its controller has changed")
        return plan_controlled(snapshot, obj, self._owners)

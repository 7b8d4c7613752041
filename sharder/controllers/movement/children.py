"""Find controlled objects, and move them to the shards of their parents."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from sharder.controllers.movement.mover import Mover
from sharder.controllers.scope import MAX_NAMESPACES, ObjectKey, naming_the_rule, read
from sharder.core.api.meta import OwnerReference, PartialObject, Resource
from sharder.core.errors import ApiError, InvalidObject, NotFound
from sharder.core.movement.planner import Parents, is_stranded, plan_controlled
from sharder.core.movement.release import UNKNOWN, UNSEEN_SECONDS
from sharder.core.movement.step import Keep, Step
from sharder.core.names import GroupResource, ObjectRef, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.runtime.task_pool import batch

CONCURRENT_LISTS = 8
"""Lists at the same time: each holds a page."""

FOLLOWED_TOGETHER = 100
"""Controlled objects whose parents are read together."""

Child: TypeAlias = tuple[Resource, PartialObject]
"""A controlled object, as it was listed."""


async def list_children(
    snapshot: RingSnapshot,
    mover: Mover,
    main: Resource,
    parents: Mapping[str, PartialObject],
    shards: Set[ShardName],
) -> Mapping[str, list[Child]]:
    """Return the children of objects of a main resource, by the uid of their controller.

    Args:
        snapshot: The ring.
        mover: Knows the cluster.
        main: The resource of the parents.
        parents: The objects by uid.
        shards: The shards on which the children can be; with `UNKNOWN`, any shard or none.

    Raises:
        ApiError: a list failed.
    """
    names = "" if UNKNOWN in shards else ",".join(sorted(shards))
    labels = f"{snapshot.owner_label} in ({names})" if names else ""
    found = defaultdict[str, list[Child]](list)

    async def read(resource: Resource, namespace: str) -> None:
        # It is not served any more, so there are none.
        with naming_the_rule(resource.id), suppress(NotFound):
            async for obj in mover.objects.of(resource, labels, namespace=namespace).stream():
                if (uid := controller_of(obj)) in parents:
                    found[uid].append((resource, obj))

    async with batch(CONCURRENT_LISTS) as lists:
        for controlled in controlled_by(snapshot, main.id) if parents else ():
            with naming_the_rule(controlled), suppress(NotFound):
                resource = await mover.objects.find(controlled)
                for namespace in _namespaces_of(snapshot, resource, parents):
                    await lists.add(read(resource, namespace))
    return found


def controlled_by(snapshot: RingSnapshot, main: GroupResource) -> Iterator[GroupResource]:
    """Yield the controlled resources of a main one, except those that are main ones too."""
    for entry in snapshot.resources:
        for controlled in entry.controlled_resources if entry.id == main else ():
            if snapshot.roles[controlled.id] is Role.CONTROLLED:
                yield controlled.id


def _namespaces_of(
    snapshot: RingSnapshot, resource: Resource, parents: Mapping[str, PartialObject]
) -> Iterator[str]:
    """Yield the namespaces of the children; the empty one stands for all."""
    namespaces = {parent.metadata.namespace for parent in parents.values()}
    most = MAX_NAMESPACES if snapshot.is_split else 1
    if not resource.namespaced or "" in namespaces or len(namespaces) > most:
        yield ""
    else:
        yield from sorted(namespaces)


class ChildrenFollower:
    """Reads each parent of controlled objects once, and plans with one snapshot."""

    def __init__(self, snapshot: RingSnapshot, mover: Mover) -> None:
        self._snapshot = snapshot
        self._objects = mover.objects
        self._mover = mover
        self._failures = mover.failures
        self._parents = Parents()
        self._between = dict[str, bool]()
        """Parents between two shards by uid, and whether their children move with them."""
        self._unread = dict[str, ApiError | InvalidObject]()

    async def run(self, found: Sequence[Child]) -> dict[ObjectRef, float]:
        """Move each object one step; a failure affects no other object.

        Returns:
            The objects that wait until their parent has a shard, and for how many seconds.

        Raises:
            ApiError: the resource of a parent is unknown.
        """
        references = {
            reference.uid: (reference, obj.metadata.namespace)
            for _, obj in found
            if (reference := obj.metadata.controller) is not None
        }
        await self._check_known({(r.group, r.kind) for r, _ in references.values()})
        async with batch(self._mover.limit) as reads:
            for reference, namespace in references.values():
                await reads.add(self._learn(reference, namespace))
        async with batch(self._mover.limit) as writes:
            for resource, obj in found:
                await writes.add(self._move(resource, obj))
        waiting = (obj for _, obj in found if self._between.get(controller_of(obj)) is False)
        return dict.fromkeys((obj.metadata.ref for obj in waiting), UNSEEN_SECONDS)

    async def _check_known(self, kinds: Set[tuple[str, str]]) -> None:
        """Check that no controller can be of a main resource that is not discovered yet.

        Raises:
            ApiError: one can; a resource that is not served has no objects with an owner label.
        """
        known = {kind.resource for kind in self._snapshot.kinds.values()}
        if not kinds <= self._snapshot.kinds.keys():
            for entry in self._snapshot.resources:
                if entry.id not in known:
                    with suppress(NotFound):
                        await self._objects.find(entry.id)

    async def _learn(self, reference: OwnerReference, namespace: str) -> None:
        """Record where a parent is; for a deleted parent the hash of its key counts."""
        kind = self._snapshot.kinds.get((reference.group, reference.kind))
        if kind is None:
            return
        ref = ObjectRef(namespace if kind.namespaced else "", reference.name)
        try:
            main = await self._objects.find(kind.resource)
            parent = await read(self._objects, main, ref)
        except NotFound:
            return
        except (ApiError, InvalidObject) as error:
            self._unread[reference.uid] = error
            return
        if parent.metadata.uid == reference.uid:
            self._parents.note(self._snapshot, parent)
            if self._snapshot.selects(parent) and is_stranded(self._snapshot, parent):
                self._between[reference.uid] = kind.leads

    async def _move(self, resource: Resource, obj: PartialObject) -> None:
        uid = controller_of(obj)
        key = ObjectKey(self._snapshot.name, resource.id, obj.metadata.ref)
        unread = self._unread.get(uid)
        if unread is not None:
            await self._failures.failed(key, obj, unread)
        elif uid not in self._between:
            await self._mover.move(self._snapshot.name, resource, obj, partial(self._plan, uid))

    def _plan(self, uid: str, snapshot: RingSnapshot, obj: PartialObject) -> Step:
        if snapshot.epoch is not self._snapshot.epoch:
            return Keep("the ring has changed since the parents were read")
        if controller_of(obj) != uid:
            return Keep("its controller has changed")
        return plan_controlled(snapshot, obj, self._parents)


class Gathering:
    """Finds the objects of a controlled resource that are not with their parents.

    The known parents are as old as their list.  A newer one, or one of a resource that does not
    list this one in `controlledResources`, can be in work on the object's shard.
    """

    def __init__(
        self, snapshot: RingSnapshot, mover: Mover, main: GroupResource, parents: Parents
    ) -> None:
        """`parents` are the listed objects of the main resource."""
        self._snapshot = snapshot
        self._mover = mover
        self._main = main
        self._parents = parents

    async def run(self, resource: Resource, listed: AsyncIterator[PartialObject]) -> int:
        """Move those objects; return how many of all have no controller.

        Raises:
            ApiError: the resource of a parent is unknown.
        """
        found, uncontrolled, leading = list[Child](), 0, self._leading(resource.id)
        async for obj in listed:
            by = self._snapshot.controller_resource(obj)
            is_mine = (by if by in leading else leading[0]) == self._main
            if not is_mine or not self._snapshot.selects(obj, Role.CONTROLLED):
                continue
            uncontrolled += obj.metadata.controller is None
            if not isinstance(plan_controlled(self._snapshot, obj, self._parents), Keep):
                found.append((resource, obj))
            if len(found) >= FOLLOWED_TOGETHER:
                await ChildrenFollower(self._snapshot, self._mover).run(found)
                found.clear()
        await ChildrenFollower(self._snapshot, self._mover).run(found)
        return uncontrolled

    def _leading(self, controlled: GroupResource) -> list[GroupResource]:
        """Return the main resources that list a controlled one, and gather its objects.

        Each gathers those of its own objects, and the first one also all others.
        """
        served = {kind.resource for kind in self._snapshot.kinds.values()}
        return [
            main.id
            for main in self._snapshot.resources
            if controlled in controlled_by(self._snapshot, main.id)
            and main.id in {*served, self._main}
        ]


def controller_of(obj: PartialObject) -> str:
    """Return the uid of an object's controller, empty without one."""
    reference = obj.metadata.controller
    return "" if reference is None else reference.uid

"""One pass over a part of a ring: the objects of a main resource in one request.

First it rescues objects without a working shard, then it follows the placement.  Memory does not
grow with the number of objects: main objects are remembered only if they wait for a drain and
control others (docs/protocol.md, "Moving objects").
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, NamedTuple

from sharder.controllers.counting.unread_parts import Unreadable
from sharder.controllers.movement.resync.part_lists import PartLists, Shared
from sharder.controllers.movement.writes.owner_transfer import AT_ONCE
from sharder.controllers.scope import ListScope, ObjectKey, Part, ResourceKey
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import RingResource
from sharder.core.errors import NotFound
from sharder.core.movement.planner import (
    Owners,
    is_free,
    plan_controlled,
    plan_main,
    plan_owned,
)
from sharder.core.movement.step import Assign, Keep, Step
from sharder.core.names import GroupResource, ObjectRef
from sharder.core.ring.snapshot import RingSnapshot, Role

LOST: Final = Keep("its last owner may still be working on it")
WAITS: Final = Keep("the hand-over moves it, after its controlled objects")
WITH_PARENT: Final = Keep("it moves together with its controller")
OF_OTHERS: Final = Keep("it moves with objects of another resource")


class Selectors(NamedTuple):
    """The labels of the objects that a pass lists."""

    stranded: str
    following: tuple[str, ...]
    """The objects that might have to leave a working shard, or are not where their key or count
    implies."""


def selectors_of(snapshot: RingSnapshot) -> Selectors:
    """Return the labels of the objects that a pass lists.

    In a counted ring only these objects might have to move: objects without a working shard,
    draining and pinned objects, objects of evacuating shards, and objects that ask for another
    pool, region or zone than their shard has.
    """
    names, owner = ",".join(sorted(snapshot.members.available)), snapshot.owner_label
    stranded, settled = f"{owner} notin ({names})", f"{owner} in ({names})"
    if snapshot.tally is None:
        return Selectors(stranded, (settled,))
    asked = [f"{settled},{key}" for key in (snapshot.drain_label, snapshot.pin_label)]
    if evacuating := sorted(snapshot.placer.layout.evacuating):
        asked.append(f"{owner} in ({','.join(evacuating)})")
    for there, labels in snapshot.reader.misplaced_on(snapshot.placer.layout.available):
        asked.append(f"{owner} in ({','.join(sorted(there))}),{labels}")
    return Selectors(stranded, tuple(asked))


class PartPass:
    """A pass over one part, decided from one snapshot."""

    def __init__(
        self,
        shared: Shared,
        main: RingResource,
        resource: Resource,
        list_scope: ListScope,
        added: frozenset[str] | None = None,
    ) -> None:
        """Begin with nothing listed.

        Args:
            shared: What all parts of the pass share.
            main: The resource of the part, as the ring has it.
            resource: The same, as it is served.
            list_scope: The request of the part; all requests for a cluster-scoped resource.
            added: The only namespaces whose objects are listed, None for all.
        """
        namespace = list_scope[0].namespace if resource.namespaced else ""
        self.part = Part(ResourceKey(shared.snapshot.name, main.id), namespace)
        self.resource = resource
        self.lists = PartLists(shared, list_scope)
        self.missing = dict[Part, Unreadable]()
        """The controlled resources that are not served."""
        self._shared = shared
        self._snapshot = shared.snapshot
        self._mover = shared.mover
        self._main = main
        self._added = added
        self._selectors = selectors_of(shared.snapshot)
        self._owners = Owners()
        self._free = set[str]()
        """The uids of leading objects without a working shard: their dependents move with them."""

    @property
    def parts(self) -> list[Part]:
        """The part, and those of the objects that its objects control."""
        resources = (self._main.id, *(each.id for each in self._main.controlled_resources))
        ring, namespace = self._snapshot.name, self.part.namespace
        return [Part(ResourceKey(ring, each), namespace) for each in resources]

    async def rescue(self) -> None:
        """Assign objects without a working shard; the hand-over assigns those with dependents.

        Raises:
            Unreadable: a list failed.
        """
        stranded = self._selectors.stranded
        if self._snapshot.roles[self._main.id] is not Role.LEADING:
            await self.lists.move_main(self.resource, stranded, self._plan_free)
            return
        await self._enqueue()
        await self.lists.move_main(self.resource, stranded, self._plan_stranded, self._learn)

    async def _enqueue(self) -> None:
        """Let the hand-over assign leading objects without a working shard."""
        found = list[ObjectRef]()
        async for obj in self.lists.stream(self.resource, self._selectors.stranded):
            if not self._can_move(obj):
                continue
            step = plan_main(self._snapshot, obj)
            self._shared.stats.note(step)
            if isinstance(step, Assign):
                self._shared.stats.handed_over(self._snapshot, obj)
                found.append(obj.metadata.ref)
            if len(found) >= AT_ONCE:
                await self._carry(found)
                found = []
        await self._carry(found)

    async def _carry(self, refs: list[ObjectRef]) -> None:
        check = partial(self._mover.check, self._snapshot)
        await self._shared.pending.carry(self.part.resource_key, refs, check)

    async def follow(self) -> None:
        """Drain objects that belong elsewhere, withdraw outdated drains, and gather dependents.

        Raises:
            Unreadable: a list failed.
        """
        follow = partial(plan_owned, self._snapshot)
        for labels in self._selectors.following:
            await self.lists.move_main(self.resource, labels, follow, self._learn)
        if self._snapshot.roles[self._main.id] is Role.LEADING:
            await self._gather()

    def _learn(self, obj: PartialObject) -> None:
        """Remember a leading object that is not on the shard that its key or count implies."""
        if self._snapshot.roles[self._main.id] is not Role.LEADING:
            return
        if not self._snapshot.selects(obj):
            self._owners.leave(self._snapshot, obj)
        elif is_free(self._snapshot, obj):
            self._free.add(obj.metadata.uid)
        else:
            self._owners.note(self._snapshot, obj, plan_main(self._snapshot, obj))

    async def _gather(self) -> None:
        """Move the dependents of the other objects to their owners' shards."""
        async for resource in self._controlled():
            sharing = await self._sharing(resource)
            decide = partial(self._plan_controlled, sharing)
            with self._unless_missing(resource.id):
                await self.lists.move_controlled(resource, decide, counts=sharing.is_first)

    async def _controlled(self) -> AsyncIterator[Resource]:
        """Yield the controlled resources that are served."""
        for controlled in self._main.controlled_resources:
            if self._snapshot.roles[controlled.id] is not Role.CONTROLLED:
                continue
            with self._unless_missing(controlled.id):
                yield await self._shared.find(controlled.id)

    @contextmanager
    def _unless_missing(self, controlled: GroupResource) -> Iterator[None]:
        """Note a controlled resource that is not served: there are no objects to wait for."""
        try:
            yield
        except Unreadable as error:
            if not isinstance(error.error, NotFound):
                raise
            self.missing[Part(ResourceKey(self._snapshot.name, controlled))] = error

    async def _sharing(self, controlled: Resource) -> "_Sharing":
        """Return which objects of a controlled resource this part moves.

        These are the objects that its own objects control.  The first main resource also moves the
        objects that no main object controls.
        """
        kinds = list[tuple[str, str]]()
        for other in self._snapshot.resources:
            if controlled.id not in {each.id for each in other.controlled_resources}:
                continue
            with suppress(Unreadable):  # its objects wait for its own part
                resource = await self._shared.find(other.id)
                kinds.append((resource.id.group, resource.kind))
        own = self.resource.id.group, self.resource.kind
        return _Sharing(controlled, own, frozenset(kinds) - {own}, is_first=kinds[:1] == [own])

    def _can_move(self, obj: PartialObject) -> bool:
        """Return whether a leading object can be moved now, with all that it controls.

        A pass over added namespaces does not list what a cluster-scoped object controls in others.
        """
        meta = obj.metadata
        key = ObjectKey(self.part.resource_key, meta.ref)
        return (
            (self._added is None or bool(meta.namespace) or meta.name in self._added)
            and self._snapshot.selects(obj)
            and is_free(self._snapshot, obj)
            and not self._mover.failures.wait(key)
            and not self._mover.wait(self._snapshot, self.resource, obj)
        )

    def _plan_controlled(self, sharing: "_Sharing", obj: PartialObject) -> Step:
        reference = obj.metadata.controller
        if not sharing.includes(None if reference is None else (reference.group, reference.kind)):
            return OF_OTHERS
        if reference is not None and reference.uid in self._free:
            return WITH_PARENT
        return plan_controlled(self._snapshot, obj, self._owners)

    def _plan_free(self, obj: PartialObject) -> Step:
        """Return the step; an object that just lost its owner label is left to the hand-over."""
        if self._mover.wait(self._snapshot, self.resource, obj) > 0:
            return LOST
        return plan_main(self._snapshot, obj)

    def _plan_stranded(self, obj: PartialObject) -> Step:
        """Return the step of a leading object, once those without a working shard have moved."""
        return WAITS if is_free(self._snapshot, obj) else plan_main(self._snapshot, obj)


class _Sharing(NamedTuple):
    """A controlled resource, and the kinds of the objects that control it."""

    resource: Resource
    own: tuple[str, str]
    others: frozenset[tuple[str, str]]
    is_first: bool

    def includes(self, kind: tuple[str, str] | None) -> bool:
        """Return whether the part moves objects with a controller of this kind."""
        return kind == self.own or (self.is_first and kind not in self.others)

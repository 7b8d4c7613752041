"""One pass over a part of a ring: the objects of a main resource in one request.

First it rescues objects without a working shard, then it follows the placement.  Memory does not
grow with the number of objects: main objects are remembered only if they wait for a drain and
control others (docs/protocol.md, "Moving objects").
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, NamedTuple

from sharder.controllers.counting.live_counts import Began
from sharder.controllers.counting.unread_parts import Unreadable
from sharder.controllers.movement.resync.part_lists import PartLists, Shared
from sharder.controllers.movement.writes.failures import BACKOFF
from sharder.controllers.scope import ListScope, ObjectKey, Part, ResourceKey
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import RingResource
from sharder.core.errors import NotFound
from sharder.core.movement.desired import is_misdirected
from sharder.core.movement.planner import Owners, plan_controlled, plan_main, plan_owned
from sharder.core.movement.step import Assign, Keep, Step
from sharder.core.names import GroupResource
from sharder.core.ring.snapshot import RingSnapshot, Role

ELSEWHERE: Final = Keep("what it controls in other namespaces moves first")
RELEASED: Final = Keep("its shard has just released it; its controlled objects move first")
NOT_LISTED: Final = Keep("it was released, or got room, after its controlled objects were listed")
LOST: Final = Keep("its last owner may still be working on it")
LEFT_BEHIND: Final = Keep("its controlled objects could not be moved yet")
CLAIMED: Final = Keep("its controlled objects move to another shard")
OF_OTHERS: Final = Keep("it moves with objects of another resource")


class Selectors(NamedTuple):
    """The labels of the objects that a pass lists."""

    stranded: str
    settled: str
    following: tuple[str, ...]
    """The objects that might have to leave a working shard."""
    displacing: tuple[str, ...]
    """The objects that might not be where their key or count implies."""


def selectors_of(snapshot: RingSnapshot) -> Selectors:
    """Return the labels of the objects that a pass lists.

    In a counted ring only these objects might have to move: objects without a working shard,
    draining and pinned objects, objects of evacuating shards, and objects that ask for another
    pool, region or zone than their shard has.
    """
    names, owner = ",".join(sorted(snapshot.members.available)), snapshot.owner_label
    stranded, settled = f"{owner} notin ({names})", f"{owner} in ({names})"
    if snapshot.tally is None:
        return Selectors(stranded, settled, (settled,), ("",))
    asked = [f"{settled},{key}" for key in (snapshot.drain_label, snapshot.pin_label)]
    if evacuating := sorted(snapshot.placer.layout.evacuating):
        asked.append(f"{owner} in ({','.join(evacuating)})")
    for there, labels in snapshot.reader.misplaced_on(snapshot.placer.layout.available):
        asked.append(f"{owner} in ({','.join(sorted(there))}),{labels}")
    # With this order, an object that is released between two lists is in the second list.
    return Selectors(stranded, settled, tuple(asked), (*asked, stranded))


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
        self.began = Began(Counter(), Counter())
        """The counts when the list of the settled objects began."""
        self.missing = dict[Part, Unreadable]()
        """The controlled resources that are not served."""
        self._shared = shared
        self._snapshot = shared.snapshot
        self._reservations = shared.reservations
        self._mover = shared.mover
        self._main = main
        self._added = added
        self._selectors = selectors_of(shared.snapshot)
        self._has_lost = False
        """Whether a leading object just lost its owner label.  Its dependents have not moved, so
        this pass assigns no unassigned leading object: the hand-over assigns them."""
        self._takes = False
        """Whether leading objects are taken from shards that are gone: only then objects are
        recalled."""

    @property
    def parts(self) -> list[Part]:
        """The part, and those of the objects that its objects control."""
        resources = (self._main.id, *(each.id for each in self._main.controlled_resources))
        ring, namespace = self._snapshot.name, self.part.namespace
        return [Part(ResourceKey(ring, each), namespace) for each in resources]

    async def rescue(self) -> None:
        """Assign objects without a working shard; their dependents move first.

        Raises:
            Unreadable: a list failed.
        """
        stranded = self._selectors.stranded
        if self._snapshot.roles[self._main.id] is not Role.LEADING:
            await self.lists.move_main(self.resource, stranded, self._plan_free)
            return
        owners = Owners()
        await self._learn(owners)
        if self._takes:
            recall = self._mover.recalling(self._snapshot, self.resource, self._reservations)
            await self.lists.move_all(self.resource, stranded, recall)
        await self._gather(owners)
        self._put_off()
        await self.lists.move_main(self.resource, stranded, partial(self._plan_stranded, owners))

    async def follow(self) -> None:
        """Drain objects that belong elsewhere, and withdraw outdated drains.

        Raises:
            Unreadable: a list failed.
        """
        follow = partial(plan_owned, self._snapshot)
        for labels in self._selectors.following:
            await self.lists.move_main(self.resource, labels, follow)

    def _put_off(self) -> None:
        """Defer owners whose dependents could not be written; the hand-over moves them."""
        for ref in self.lists.left_behind.values():
            where = ref if self.resource.namespaced else ref._replace(namespace="")
            key = ObjectKey(self.part.resource_key, where)
            self._mover.failures.put_off(key, BACKOFF.base)

    async def _learn(self, owners: Owners) -> None:
        """Read all objects, or in a counted ring only those that can be displaced."""
        for labels in self._selectors.displacing:
            async for obj in self.lists.stream(self.resource, labels):
                if not self._snapshot.selects(obj):
                    owners.leave(self._snapshot, obj)
                elif self._mover.wait(self._snapshot, self.resource, obj) > 0:
                    self._has_lost = True
                elif is_misdirected(self._snapshot, obj) or self._backs_off(obj):
                    # Only the hand-over claims it, or tries it again, before its dependents move.
                    self.lists.left_behind[obj.metadata.uid] = obj.metadata.ref
                elif self._leads_elsewhere(obj):
                    owners.note(self._snapshot, obj, ELSEWHERE)
                else:
                    step = self._reservations.plan(obj)
                    owners.note(self._snapshot, obj, step)
                    is_owned = self._snapshot.owner_of(obj) is not None
                    self._takes |= is_owned and isinstance(step, Assign)

    async def _gather(self, owners: Owners) -> None:
        """Move the dependents of the objects to their owners' shards.

        Dependents on shards that are gone come last: the Lease of such a shard is reserved from
        their writes until the writes of their owners.  If the leader fails in between, the shard
        can return, but its objects were recalled.
        """
        controlled = [await self._sharing(each) async for each in self._controlled()]
        for labels in (self._selectors.settled, self._selectors.stranded):
            for sharing in controlled:
                decide = partial(self._plan_controlled, owners, sharing)
                with self._unless_missing(sharing.resource.id):
                    await self.lists.move_controlled(
                        sharing.resource, labels, decide, counts=sharing.is_first
                    )

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

    def _backs_off(self, obj: PartialObject) -> bool:
        """Return whether an object without a working shard must not be written yet."""
        key = ObjectKey(self.part.resource_key, obj.metadata.ref)
        is_stranded = self._snapshot.owner_of(obj) not in self._snapshot.members.available
        return is_stranded and self._mover.failures.wait(key) > 0

    def _leads_elsewhere(self, obj: PartialObject) -> bool:
        """Return whether an object without a working shard can control objects not listed here.

        Such an object is moved by the hand-over, or by a pass over the whole ring.
        """
        is_listed = (
            self._added is None or obj.metadata.namespace or obj.metadata.name in self._added
        )
        return (
            not is_listed and self._snapshot.owner_of(obj) not in self._snapshot.members.available
        )

    def _plan_controlled(self, owners: Owners, sharing: "_Sharing", obj: PartialObject) -> Step:
        reference = obj.metadata.controller
        if not sharing.includes(None if reference is None else (reference.group, reference.kind)):
            return OF_OTHERS
        if reference is not None and reference.uid in self.lists.left_behind:
            return Keep("its controller could not be written, or another of its objects")
        return plan_controlled(self._snapshot, obj, owners)

    def _plan_free(self, obj: PartialObject) -> Step:
        """Return the step; an object that just lost its owner label is left to the hand-over."""
        if self._mover.wait(self._snapshot, self.resource, obj) > 0:
            return LOST
        return plan_main(self._snapshot, obj)

    def _plan_stranded(self, owners: Owners, obj: PartialObject) -> Step:
        """Return the step; keep an object whose dependents have not moved to its target."""
        step = self._reservations.keep(obj)
        is_unassigned = self._snapshot.owner_of(obj) is None
        guards = (
            (self._leads_elsewhere(obj), ELSEWHERE),
            (owners.waits(obj), RELEASED),
            (not self._reservations.has_planned(obj), NOT_LISTED),
            (is_unassigned and self._has_lost, LOST),
            # It can lose its label after its dependents were listed; they wait as long.
            (self._mover.wait(self._snapshot, self.resource, obj) > 0, LOST),
            (obj.metadata.uid in self.lists.left_behind, LEFT_BEHIND),
            (self._is_claimed(owners, obj, step), CLAIMED),
        )
        return next((why for applies, why in guards if applies), step)

    def _is_claimed(self, owners: Owners, obj: PartialObject, step: Step) -> bool:
        """Return whether an object's dependents moved to another shard, or will be moved there."""
        if not isinstance(step, Assign):
            return False
        is_unassigned = self._snapshot.owner_of(obj) is None
        is_sent_elsewhere = self._snapshot.is_sent_elsewhere(obj, step.shard)
        have_followed = owners.expects(self._snapshot, obj, step.shard)
        return not have_followed or (is_unassigned and is_sent_elsewhere)


class _Sharing(NamedTuple):
    """A controlled resource, and the kinds of the objects that control it."""

    resource: Resource
    own: tuple[str, str]
    others: frozenset[tuple[str, str]]
    is_first: bool

    def includes(self, kind: tuple[str, str] | None) -> bool:
        """Return whether the part moves objects with a controller of this kind."""
        return kind == self.own or (self.is_first and kind not in self.others)

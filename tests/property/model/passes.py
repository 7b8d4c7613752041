"""How a sharder goes over the objects of a ring, one write at a time.

What `sharder.controllers.movement` does with tasks and locks is retold here with generators: each
yields the writes that it wants to be carried out and may be left standing before any of them.
Every decision is the core's own.  None is yielded between two reads, where others may come in.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeAlias

from sharder.core.api.meta import PartialObject
from sharder.core.errors import ApiError, Conflict, NotFound
from sharder.core.names import GroupResource, ObjectRef
from tests.property.model.ceilings import Ceilings
from tests.property.model.cluster import Cluster, Move
from tests.property.model.core import (
    Assign,
    Keep,
    LeastDrawn,
    Owners,
    Reservations,
    Role,
    ShardName,
    Step,
    choose,
    excess_of,
    is_free,
    keep_priority_of,
    next_step,
    patch_of,
    plan_controlled,
    plan_directed,
    plan_displaced,
    plan_main,
    plan_owned,
    position_of,
    reservation_of,
)
from tests.property.model.counting import MAIN, Counting
from tests.property.model.laws import expect
from tests.property.model.view import View
from tests.support.values import CONFIGMAPS, SECRETS, WIDGETS

Steps: TypeAlias = Generator[Move | None, PartialObject, None]
Decide: TypeAlias = Callable[[PartialObject], Step]

MAX_ATTEMPTS: Final = 5

NEVER: Final = -1
"""No revision."""

UNKNOWN: Final = ShardName("")
"""Stands for the shard of an object that was asked to let go while it had no owner."""


class Walk:
    """What a resync and a hand-over have in common: one snapshot, and a way to move an object."""

    def __init__(self, cluster: Cluster, view: View, counting: Counting) -> None:
        self.cluster = cluster
        self.snapshot = view.snapshot()
        self.reservations = Reservations(self.snapshot)
        self._reserved = set[str]()
        self.ceilings = Ceilings(cluster, self.snapshot)
        self.counting = counting
        self.available = view.available()
        self.lease_events = view.cursor
        self.failed = set[str]()
        """What could not be written, by uid."""

    def move(
        self, resource: GroupResource, obj: PartialObject, decide: Decide, read_at: int = 0
    ) -> Steps:
        """Bring an object one step on; a lost race is decided anew, other failures are noted."""
        for _ in range(MAX_ATTEMPTS):
            step = self._decided(resource, obj, decide)
            body = patch_of(self.snapshot, obj, step)
            if body is None or not self.snapshot.selects(obj):
                return
            try:
                move = Move(
                    resource=resource,
                    obj=obj,
                    step=step,
                    body=body,
                    snapshot=self.snapshot,
                    available=self.available,
                    read_at=read_at if self._has_planned(resource, obj) else NEVER,
                    lease_events=self.lease_events,
                    failed=frozenset(self.failed),
                )
                with self.ceilings.writing(move, self.counting), self._counted(move):
                    yield move
            except Conflict:
                try:
                    obj = self.cluster.get(resource, obj.metadata.ref)
                except NotFound:
                    return
            except NotFound:
                return
            except ApiError:
                self.failed.add(obj.metadata.uid)
                return
            else:
                return

    def _move_all(
        self,
        resource: GroupResource,
        objects: Iterable[PartialObject],
        decide: Decide,
        read_at: int = 0,
    ) -> Steps:
        yield None
        for obj in objects:
            yield from self.move(resource, obj, decide, read_at)

    def _has_planned(self, resource: GroupResource, obj: PartialObject) -> bool:
        """Tell whether what the object controls was planned with it.

        Where objects are counted, one for which there was no room may find some a moment later:
        what it controls is left to the next pass.
        """
        is_free = resource == SECRETS and self.snapshot.tally is not None
        return not is_free or obj.metadata.uid in self._reserved

    def _decided(self, resource: GroupResource, obj: PartialObject, decide: Decide) -> Step:
        """Decide, and judge that unless it was reserved before."""
        judge = self.ceilings.judge_of(resource, obj)
        step = decide(obj)
        if obj.metadata.uid not in self._reserved:
            judge(step)
        return step

    def reserve(self, resource: GroupResource, obj: PartialObject) -> Step:
        """Plan a main object, and stand by it from then on."""
        judge = self.ceilings.judge_of(resource, obj)
        step = self.reservations.plan(obj)
        judge(step)
        if isinstance(step, Assign):
            self._reserved.add(obj.metadata.uid)
        return step

    def known_at(self) -> int:
        """Return the revision up to which it knows where owners are."""
        if self.snapshot.tally is None:
            return self.cluster.revision
        return min(self.cluster.revision, self.counting.shown_at())

    @contextmanager
    def _counted(self, move: Move) -> Iterator[None]:
        """Count a main object as it will be, and as it was if the write fails."""
        tally, reservation = self.snapshot.tally, None
        if move.resource in MAIN:
            reservation = reservation_of(self.snapshot, move.obj, move.step)
        if tally is None or reservation is None:
            yield
            return
        tally.assume(reservation)
        try:
            yield
        except BaseException:
            tally.forget(reservation.identity)
            raise

    def listed(self, resource: GroupResource, *, settled: bool) -> list[PartialObject]:
        """List what available shards own, or everything else."""
        members = self.snapshot.members.available
        return [
            obj
            for obj in self.cluster.objects_of(resource)
            if (self.snapshot.owner_of(obj) in members) == settled
        ]


class Pass(Walk):
    """A resync of the ring."""

    is_gathering = False
    """It moves owners together with what they control: no hand-over of these meanwhile."""

    def run(self) -> Steps:
        if not self.snapshot.members.available:
            return
        try:
            yield from self._run()
        finally:
            self.reservations.give_back()

    def _run(self) -> Steps:
        began = self.cluster.revision
        self.ceilings.begin()
        yield from self._move_all(WIDGETS, self._stranded(WIDGETS), self._plan)
        yield from self._rescue_leading()
        yield from self._relieve()
        for resource in MAIN:
            for objects in self._following(resource):
                yield from self._move_all(resource, objects, partial(plan_owned, self.snapshot))
        if self.snapshot.tally is None:
            self._expect_no_idle_drains(began)
        elif not self.failed:
            self.ceilings.end()

    def _rescue_leading(self) -> Steps:
        self.is_gathering = True
        owners, free, read_at = Owners(), set[str](), self.known_at()
        for obj in self._displacing():
            if self.snapshot.selects(obj):
                free |= {obj.metadata.uid} if is_free(self.snapshot, obj) else set()
                owners.note(self.snapshot, obj, self.reserve(SECRETS, obj))
        yield None
        yield from self._move_all(SECRETS, self._stranded(SECRETS), self.reservations.recall)
        decide = partial(self._plan_controlled, owners)
        gathered_at = self.cluster.revision
        yield from self._move_all(CONFIGMAPS, self._stranded(CONFIGMAPS), decide, read_at)
        yield from self._move_all(CONFIGMAPS, self._settled(CONFIGMAPS), decide, read_at)
        stranded = partial(self._plan_stranded, free)
        yield from self._move_all(SECRETS, self._stranded(SECRETS), stranded, gathered_at)
        self.is_gathering = False

    def _displacing(self) -> list[PartialObject]:
        """List all owners, or where they are counted those that may be displaced."""
        if self.snapshot.tally is None:
            return self.cluster.objects_of(SECRETS)
        asked = (obj for objects in self._following(SECRETS) for obj in objects)
        return [*self._stranded(SECRETS), *asked]

    def _following(self, resource: GroupResource) -> Iterator[list[PartialObject]]:
        """List what an available shard has and may have to leave it."""
        if self.snapshot.tally is None:
            yield self._settled(resource)
            return
        for label in (self.snapshot.drain_label, self.snapshot.pin_label):
            yield [obj for obj in self._settled(resource) if obj.metadata.has_label(label)]
        evacuated = self.snapshot.placer.layout.evacuating
        yield [obj for obj in self._settled(resource) if self.snapshot.owner_of(obj) in evacuated]

    def _relieve(self) -> Steps:
        """Ask shards that have too many to let go of some."""
        for shard, excess in excess_of(self.snapshot).items():
            displaced = LeastDrawn[tuple[GroupResource, PartialObject]](excess)
            for resource in MAIN:
                for obj in self.cluster.objects_of(resource):
                    has_it = self.snapshot.owner_of(obj) == shard
                    if has_it and self.snapshot.selects(obj) and self.snapshot.entry_of(obj).stays:
                        displaced.offer(
                            keep_priority_of(self.snapshot, obj, shard), (resource, obj)
                        )
            yield None
            for resource, obj in displaced.items():
                decide = partial(plan_displaced, self.snapshot, shard=shard)
                yield from self.move(resource, obj, decide)

    def _expect_no_idle_drains(self, began: int) -> None:
        """L3: a pass leaves no drain on what is where the ring wants it.

        Unless it could not be written, or was written by others while the pass went on, or it is
        recalled: then its shard releases it.
        """
        for resource in (WIDGETS, SECRETS):
            for obj in self.listed(resource, settled=True):
                is_idle = self.snapshot.owner_of(obj) == choose(self.snapshot, obj).shard
                is_old = int(obj.metadata.resource_version) <= began
                is_known = is_old and not self.snapshot.is_recalled(obj)
                if is_known and is_idle and obj.metadata.uid not in self.failed:
                    drains = self.snapshot.is_draining(obj) and self.snapshot.selects(obj)
                    expect("L3", not drains, f"{obj.metadata.ref} drains and is in place")

    def _stranded(self, resource: GroupResource) -> list[PartialObject]:
        return self.listed(resource, settled=False)

    def _settled(self, resource: GroupResource) -> list[PartialObject]:
        return self.listed(resource, settled=True)

    def _plan(self, obj: PartialObject) -> Step:
        return plan_main(self.snapshot, obj)

    def _plan_controlled(self, owners: Owners, obj: PartialObject) -> Step:
        controller = obj.metadata.controller
        if controller is not None and controller.uid in self.failed:
            return Keep("its controller could not be written")
        return plan_controlled(self.snapshot, obj, owners)

    def _plan_stranded(self, free: set[str], obj: PartialObject) -> Step:
        uid = obj.metadata.uid
        is_left = uid in self.failed or (is_free(self.snapshot, obj) and uid not in free)
        return Keep("the hand-over's") if is_left else self.reservations.keep(obj)


class Directed(Walk):
    """Brings one object to another shard, as rebalancing does."""

    def run(self, resource: GroupResource, obj: PartialObject, target: ShardName) -> Steps:
        source, tally = self.snapshot.owner_of(obj), self.snapshot.tally
        if source not in {None, target} and tally is not None and tally.synced:
            decide = partial(plan_directed, self.snapshot, source=source, target=target)
            yield from self.move(resource, obj, decide)


class HandOver(Walk):
    """Takes single objects one step on: those that were let go, and those without owner.

    What is to be given away goes after what it controls.
    """

    def run(self, resource: GroupResource, released: dict[ObjectRef, ShardName]) -> Steps:
        """Move them; `released` keeps those for which that has to be tried again."""
        try:
            yield from self._run(resource, released)
        except BaseException:
            self.reservations.give_back()
            raise

    def _run(self, resource: GroupResource, released: dict[ObjectRef, ShardName]) -> Steps:
        found = {
            obj.metadata.ref: obj
            for obj in self.cluster.objects_of(resource)
            if obj.metadata.ref in released and self.snapshot.selects(obj)
        }
        steps = {obj.metadata.uid: self.reserve(resource, obj) for obj in found.values()}
        goals = {uid: step.shard for uid, step in steps.items() if isinstance(step, Assign)}
        placed = {obj.metadata.uid: obj for obj in found.values() if obj.metadata.uid in goals}
        left = self._left(placed, released)
        read_at = self.cluster.revision
        yield None
        stuck, is_leading = set[str](), self.snapshot.roles[resource] is Role.LEADING
        if is_leading:
            yield from self._move_all(resource, placed.values(), self.reservations.recall)
            stuck |= self.failed
        gathered_at = self.cluster.revision
        if is_leading:
            led = {uid: obj for uid, obj in placed.items() if uid not in stuck}
            yield from self._move_followers(led, goals, left, read_at, stuck)
        for obj in found.values():
            uid = obj.metadata.uid
            if uid not in stuck:
                follow = partial(plan_owned, self.snapshot)
                decide = self.reservations.keep if uid in placed else follow
                yield from self.move(resource, obj, decide, gathered_at)
        again = stuck | self.failed
        for ref in list(released):
            if ref not in found or found[ref].metadata.uid not in again:
                del released[ref]

    def _left(
        self, placed: dict[str, PartialObject], released: dict[ObjectRef, ShardName]
    ) -> set[ShardName]:
        """Return the shards that can have what `placed` controls."""
        left = set[ShardName]()
        for obj in placed.values():
            # Since it was released, it may have been given to another shard that is gone by now.
            left |= {released[obj.metadata.ref], self.snapshot.owner_of(obj) or UNKNOWN}
            if self.snapshot.is_recalled(obj):
                left.add(UNKNOWN)
        return left

    def _move_followers(
        self,
        owners: dict[str, PartialObject],
        goals: dict[str, ShardName],
        left: set[ShardName],
        read_at: int,
        stuck: set[str],
    ) -> Steps:
        for child in self.cluster.objects_of(CONFIGMAPS):
            controller = child.metadata.controller
            if controller is None or controller.uid not in owners:
                continue
            if UNKNOWN in left or self.snapshot.owner_of(child) in left:
                decide = partial(self._follow, goals[controller.uid])
                yield from self.move(CONFIGMAPS, child, decide, read_at)
                if child.metadata.uid in self.failed:
                    stuck.add(controller.uid)

    def _follow(self, desired: ShardName, child: PartialObject) -> Step:
        position = position_of(self.snapshot, child, desired)
        return next_step(position, self.snapshot.members, Role.CONTROLLED)

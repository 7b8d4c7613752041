"""Carry one step out: one guarded write, decided again at the moment it is sent.

Between a decision and its write the world goes on.  So each attempt asks again whether this
process still leads and whether the snapshot still stands; a write that lost a race reads the
object again and is decided anew (docs/protocol.md, "Moving objects").
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Protocol
from weakref import WeakValueDictionary

from sharder.controllers.cache import ClusterCache
from sharder.controllers.movement.drain_budget import DrainBudget, DrainDeferred
from sharder.controllers.movement.failures import FailureCounter, Failures, LabelReverted
from sharder.controllers.movement.lease_guard import LeaseGuard, ShardReturned
from sharder.controllers.movement.orphans import Orphans
from sharder.controllers.movement.reservations import reserving
from sharder.controllers.permissions import naming_the_rule, read
from sharder.controllers.scope import ObjectKey, ResourceKey
from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.errors import ApiError, Conflict, InvalidObject, NotFound, SharderError
from sharder.core.movement.budget import Refusal
from sharder.core.movement.patches import assign, drain, release, withdraw
from sharder.core.movement.step import Assign, Drain, Keep, Relabel, Release, Step, Withdraw
from sharder.core.names import GroupResource, ObjectRef, RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.ports import Objects

MAX_ATTEMPTS = 5
"""Lost races on one object before it is left to the back-off: somebody writes it all the time."""

_log = logging.getLogger(__name__)

Decide = Callable[[PartialObject], Step]


class Superseded(SharderError):  # noqa: N818 - reads as a fact, like the others
    """What a pass was decided from does not stand any more: begin anew."""


class Counter(FailureCounter, Protocol):
    """Counts the steps that were carried out, and those that were not."""

    def moved(self, ring: RingName, resource: GroupResource) -> None:
        """An object was given to a shard."""
        ...

    def drained(self, ring: RingName, resource: GroupResource) -> None:
        """A shard was asked to let go of an object."""
        ...


class Mover:
    """Writes steps, at most `limit` at a time over all rings and one at a time on an object."""

    def __init__(
        self,
        *,
        cache: ClusterCache,
        objects: Objects,
        lease_guard: LeaseGuard | None,
        leads: Callable[[], bool],
        failures: Failures,
        drains: DrainBudget,
        orphans: Orphans,
        counter: Counter,
        moved: Callable[[RingName], None],
        limit: int,
    ) -> None:
        """Wire it.

        Args:
            cache: Has the rings.
            objects: What is written.
            lease_guard: Keeps away shards whose objects are taken.  None: nothing is taken
                over, no shard is asked; only unassigned objects and their children move.
            leads: Tells whether we may write at this moment.
            failures: Leave alone what could not be written.
            drains: The budgets.
            orphans: What is known of objects without owner.
            counter: Counts.
            moved: Called after each write with the ring's name.
            limit: Of writes under way at once.
        """
        self._cache = cache
        self._objects = objects
        self._lease_guard = lease_guard
        self._leads = leads
        self.failures = failures
        self._drains = drains
        self._orphans = orphans
        self._counter = counter
        self._moved = moved
        self.limit = limit
        self.takes = lease_guard is not None
        """Whether it may take objects from shards, and ask shards for them."""
        self._slots = asyncio.Semaphore(limit)
        self._turns = WeakValueDictionary[ObjectKey, asyncio.Lock]()

    async def move(
        self, snapshot: RingSnapshot, resource: Resource, obj: PartialObject, decide: Decide
    ) -> Step:
        """Bring the object one step on; return the step that was carried out.

        A drain for which the ring's budget has no room is none: `Keep` says why.

        Raises:
            Superseded: we lead no more, or the ring has changed: nothing was written.
            HeldBack: the last write to this object failed a moment ago: nothing was written.
            ApiError: the write failed; the object will be tried again.
            InvalidObject: the same.
        """
        try:
            return await self.try_to_move(snapshot, resource, obj, decide)
        except DrainDeferred as error:
            return Keep(str(error))

    async def try_to_move(
        self, snapshot: RingSnapshot, resource: Resource, obj: PartialObject, decide: Decide
    ) -> Step:
        """Do the same for who waits until there is room.

        Raises:
            Withheld: the ring's budget has no room for the drain: nothing was written.
            Superseded: we lead no more, or the ring has changed: nothing was written.
            HeldBack: the last write to this object failed a moment ago: nothing was written.
            ApiError: the write failed; the object will be tried again.
            InvalidObject: the same.
        """
        key = ObjectKey(ResourceKey(snapshot.name, resource.id), obj.metadata.ref)
        async with self._turn(key) as waited:
            try:
                if waited:
                    obj = await read(self._objects, resource, key.ref)
                step = await self._write(snapshot, resource, key, obj, decide)
            except NotFound:
                self._drains.gone(key)
                step = Keep("deleted")
            except (ApiError, InvalidObject) as error:
                await self.failures.failed(key, obj, error)
                raise
        self.failures.over(key)
        return step

    @asynccontextmanager
    async def _turn(self, key: ObjectKey) -> AsyncIterator[bool]:
        """Wait until nobody else writes the object; tell whether somebody did."""
        lock = self._turns.setdefault(key, asyncio.Lock())
        waited = lock.locked()
        async with lock:
            yield waited

    async def _write(
        self,
        snapshot: RingSnapshot,
        resource: Resource,
        key: ObjectKey,
        obj: PartialObject,
        decide: Decide,
    ) -> Step:
        """Write until no race is lost; `NotFound` if the object is gone."""
        ref = key.ref
        for _ in range(MAX_ATTEMPTS):
            step = self._allowed(snapshot, resource, obj, decide(obj))
            body = patch_of(snapshot, obj, step)
            if body is None:
                return step
            self.failures.insist(key)
            try:
                self.check(snapshot)
                with (
                    self._drains.begun(snapshot, key, step) as sent,
                    reserving(snapshot, resource, obj, step) as uncount,
                ):
                    # Whoever waits for a Lease waits without a slot: the others go on.
                    async with (
                        self._keeping_away(snapshot, resource, obj, step) as insist,
                        self._slots,
                    ):
                        insist()
                        self._expect_gone(snapshot, obj, step)
                        if not self.check(snapshot).selects(obj, snapshot.roles[resource.id]):
                            uncount()
                            return Keep("out of scope")
                        sent.now()
                        with naming_the_rule(resource.id):
                            result = await self._objects.of(resource).patch(ref, body)
                    self._done(snapshot, resource, result, step)
            except ShardReturned as error:
                raise Superseded(str(error)) from error
            except Conflict:
                obj = await read(self._objects, resource, ref)
            else:
                return step
        raise Conflict(
            f"{resource.id} {ref}: gave up after {MAX_ATTEMPTS} conflicts, "
            "another client keeps updating it"
        )

    def _allowed(
        self, snapshot: RingSnapshot, resource: Resource, obj: PartialObject, step: Step
    ) -> Step:
        """Leave to the leader what only the leader may do."""
        if self.takes or isinstance(step, Keep):
            return step
        is_controlled = snapshot.roles[resource.id] is Role.CONTROLLED
        if is_controlled or (isinstance(step, Assign) and snapshot.owner_of(obj) is None):
            return step
        return Keep("it has an owner; left to the leader")

    def _expect_gone(self, snapshot: RingSnapshot, obj: PartialObject, step: Step) -> None:
        """Make sure that the shard that is taken for gone was not seen since the snapshot.

        A ring's members are followed up at a bounded pace; this one may be at work again.

        Raises:
            Superseded: it was.
        """
        owner = snapshot.owner_of(obj)
        if owner is None or not isinstance(step, Assign | Relabel):
            return
        if self._cache.membership.is_back(snapshot.name, owner):
            raise Superseded(f"shard {owner} is back")

    def _keeping_away(
        self, snapshot: RingSnapshot, resource: Resource, obj: PartialObject, step: Step
    ) -> AbstractAsyncContextManager[Callable[[], None]]:
        """Keep the shard away whose object is taken: no resourceVersion of ours tells of it."""
        owner = snapshot.owner_of(obj)
        namespace = None if owner is None else snapshot.members.namespaces.get(owner)
        if self._lease_guard is None or owner is None or namespace is None:
            return nullcontext(_pass)
        if not isinstance(step, Assign):
            return nullcontext(_pass)
        ref = ObjectRef(namespace, owner)
        if ref in snapshot.members.validity.problems:
            return nullcontext(_pass)  # an invalid Lease is never written
        key = ObjectKey(ResourceKey(snapshot.name, resource.id), obj.metadata.ref)
        return self._lease_guard.holding(ref, again=self.failures.is_stubborn(key))

    def refusal(self, snapshot: RingSnapshot, shard: ShardName) -> Refusal | None:
        """Return why a drain of the shard would be withheld now, None if it would not."""
        return self._drains.refusal(snapshot, shard)

    def wait(self, snapshot: RingSnapshot, resource: Resource, obj: PartialObject) -> float:
        """Return for how many seconds a main object without owner is not to be given away yet.

        Those who decide ask, before what it controls is moved.  0 for one that has an owner.
        """
        if snapshot.owner_of(obj) is not None:
            return 0.0
        return self._orphans.wait(ResourceKey(snapshot.name, resource.id), obj)

    def check(self, snapshot: RingSnapshot) -> RingSnapshot:
        """Return the ring's snapshot of now; a step of `snapshot` may be written by it.

        Raises:
            Superseded: we lead no more, or the ring has changed.
        """
        current = self._cache.snapshot(snapshot.name)
        if current is None or not self._leads() or not self._cache.is_current(snapshot):
            raise Superseded(f"ring {snapshot.name} has changed")
        return current

    def _done(
        self, snapshot: RingSnapshot, resource: Resource, result: PartialObject, step: Step
    ) -> None:
        """Count the step, if the response shows it: another webhook may have undone it."""
        self._moved(snapshot.name)
        match step:
            case Assign(shard) | Relabel(shard) if snapshot.owner_of(result) == shard:
                self._counter.moved(snapshot.name, resource.id)
            case Assign() | Relabel():
                raise _undone(snapshot.owner_label, resource, result)
            case Drain() if snapshot.is_draining(result):
                self._counter.drained(snapshot.name, resource.id)
            case Drain():
                raise _undone(snapshot.drain_label, resource, result)
            case Withdraw() | Release() | Keep():
                pass
        fields = {"ring": snapshot.name, "object": str(result.metadata.ref), "step": repr(step)}
        _log.debug("wrote step", extra=fields)


def _pass() -> None:
    """No Lease has to be held."""


def _undone(label: str, resource: Resource, result: PartialObject) -> LabelReverted:
    return LabelReverted(
        f"another webhook removed the label {label} of {resource.id} {result.metadata.ref} during "
        "our write: check the admission webhooks and policies that change labels"
    )


def patch_of(snapshot: RingSnapshot, obj: PartialObject, step: Step) -> Json | None:
    """Return the patch that carries the step out, None for a step without a write."""
    match step:
        case Assign(shard) | Relabel(shard):
            return assign(snapshot, obj.metadata, shard)
        case Drain(_, to):
            return drain(snapshot, obj.metadata, to)
        case Withdraw():
            return withdraw(snapshot, obj.metadata)
        case Release():
            return release(snapshot, obj.metadata)
        case Keep():
            return None

"""Write one step with one guarded write, decided right before it is sent.

The cluster changes all the time.  So each attempt decides by the ring as it is at the write, and
checks that this process leads; after a conflict the object is read and decided again
(docs/protocol.md, "Moving objects").
"""

import asyncio
from collections.abc import Callable, Set
from contextlib import ExitStack
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from sharder.controllers.movement.failures import Failures
from sharder.controllers.movement.handover_queue import HandoverQueue
from sharder.controllers.movement.lease_guard import LeaseGuard
from sharder.controllers.movement.table import State
from sharder.controllers.movement.written_steps import WrittenSteps
from sharder.controllers.ports import Ports
from sharder.controllers.scope import ObjectKey, naming_the_rule, read
from sharder.controllers.unheld_leases import ShardReturned
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import ApiError, Conflict, InvalidObject, NotFound, SharderError
from sharder.core.movement.planner import reserving
from sharder.core.movement.release import UNSEEN_SECONDS, is_surely_free
from sharder.core.movement.step import Assign, Drain, Keep, Send, Step
from sharder.core.movement.step_patch import patch_of
from sharder.core.names import RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot, Role

MAX_ATTEMPTS = 5
"""Conflicts on one object before it backs off: another client keeps updating it."""

MAX_RESULTS = 500
"""Limit on the remembered last writes, about 0.5 MB: as many as a page of a list has objects."""

AGAIN_SECONDS = 1.0
"""Seconds until the next attempt at superseded work; the change itself has queued it at once."""

Decide = Callable[[RingSnapshot, PartialObject], Step]
"""Decides the step of an object by the ring as it is at the write."""


class Superseded(SharderError):
    """The basis of the work is outdated: start again."""


@dataclass(frozen=True, slots=True)
class Deferred(Keep):
    """A drain that was not written, because the ring's budget is spent."""

    shard: ShardName = field(kw_only=True)


class Mover:
    """Writes steps, at most `limit` at a time over all rings and one at a time on an object."""

    def __init__(self, ports: Ports, lease_guard: LeaseGuard, pending: HandoverQueue) -> None:
        """`pending` gets the objects that cannot be moved yet."""
        self._ports = ports
        self.objects = ports.objects
        self._lease_guard, self.finish = lease_guard, lease_guard.finish
        self.table = pending.table
        self.failures = Failures(ports, pending)
        self.written = WrittenSteps(ports, self.table)
        self.limit = ports.limit
        self.takes = not ports.stands_by
        """Whether it takes objects from shards, and asks shards to release objects; otherwise only
        unassigned objects and their children move."""
        self._slots = asyncio.Semaphore(ports.limit)
        self._shares = WeakValueDictionary[str, asyncio.Semaphore]()
        """The slots that one namespace can take: most, so that one whose writes all wait for a
        webhook stops no other one."""
        self._turns = WeakValueDictionary[ObjectKey, asyncio.Lock]()
        self._results: dict[ObjectKey, tuple[Set[str], PartialObject]] = {}
        """Our last writes: versions that are older, and the object after the write.

        The version that was given, and the one that was replaced: after a conflict they differ."""

    async def move(
        self,
        ring: RingName,
        resource: Resource,
        obj: PartialObject,
        decide: Decide,
        *,
        is_due: bool = False,
    ) -> Step | None:
        """Move the object one step; return the step that was written.

        `is_due` is whether to try it although it backs off, because its controller is tried now.
        A drain for which the ring has no budget is not written, and returned as `Deferred`.  None
        is returned if the write failed, now or a moment ago; the object will be retried.

        Raises:
            Superseded: we lost leadership, do not see the Leases, or the ring is deleted: nothing
                was written.
        """
        key = ObjectKey(ring, resource.id, obj.metadata.ref)
        async with self._turns.setdefault(key, asyncio.Lock()):
            try:
                given = obj.metadata.resource_version
                older, result = self._results.get(key, (frozenset[str](), obj))
                if given in older:
                    obj = result  # two steps in a row, or a pass and the hand-over
                step = await self._write(resource, key, given, obj, decide, is_due=is_due)
            except NotFound:
                self.table.budget(ring).gone(key)
                step = Keep("deleted")
            except ShardReturned as error:
                step = Keep(str(error))
            except (ApiError, InvalidObject) as error:
                self.written.failed(ring, error)
                await self.failures.failed(key, obj, error)
                return None
        if step is not None:
            self.failures.over(key)
        return step

    async def _write(
        self,
        resource: Resource,
        key: ObjectKey,
        given: str,
        obj: PartialObject,
        decide: Decide,
        *,
        is_due: bool,
    ) -> Step | None:
        """Decide and write until there is no conflict; None if the object has to wait.

        Raises:
            ApiError: the write failed; `NotFound` if the object was deleted.
        """
        for _ in range(MAX_ATTEMPTS):
            snapshot, step = self._decided(key, obj, decide)
            if isinstance(step, Keep):
                return step
            if not is_due and self.failures.wait(key) > 0:
                return None
            owner = _taken_from(snapshot, key, obj, step)
            try:
                # Waiting for a Lease takes no slot: other objects continue.
                async with (
                    self._lease_guard.holding(snapshot, owner) as check_away,
                    self._share_of(key.ref.namespace),
                    self._slots,
                ):
                    # Meanwhile the ring, its counts and its shards can have changed.
                    snapshot, step = self._decided(key, obj, decide)
                    step = self._withheld(snapshot, key, step) or step
                    if isinstance(step, Keep):
                        return step
                    if _taken_from(snapshot, key, obj, step) == owner:
                        check_away()
                        result = await self._patch(resource, key, obj, snapshot, step)
                        self._remember(key, {given, obj.metadata.resource_version}, result)
                        return step
            except Conflict:
                obj = await read(self.objects, resource, key.ref)
                if isinstance(step, Assign | Send) and self.wait(snapshot, resource, obj) > 0:
                    return None
        raise Conflict(
            f"{resource.id} {key.ref}: gave up after {MAX_ATTEMPTS} conflicts, "
            "another client keeps updating it"
        )

    async def _patch(
        self,
        resource: Resource,
        key: ObjectKey,
        obj: PartialObject,
        snapshot: RingSnapshot,
        step: Step,
    ) -> PartialObject:
        role, budget = snapshot.roles[resource.id], self.table.budget(key.ring)
        with ExitStack() as accounts:
            accounts.enter_context(naming_the_rule(resource.id))
            accounts.enter_context(reserving(snapshot, obj, step, role))
            if isinstance(step, Drain):
                leads = role is Role.LEADING
                accounts.enter_context(budget.writing(key, step.shard, leads=leads))
            body = patch_of(snapshot, obj, step)
            result = await self.objects.of(resource).patch(key.ref, body)
            self.written.note(snapshot, key, obj, result, step)
        if not isinstance(step, Drain):
            budget.gone(key)
        self.failures.written(key)
        return result

    def _withheld(self, snapshot: RingSnapshot, key: ObjectKey, step: Step) -> Deferred | None:
        """Return a drain as deferred if the ring's budget is spent."""
        if not isinstance(step, Drain):
            return None
        leads = snapshot.roles[key.resource] is Role.LEADING
        limits = snapshot.ring.spec.movement
        refusal = self.table.budget(key.ring).refusal(step.shard, limits, leads=leads)
        if refusal is None:
            return None
        self._ports.metrics.counts["drains_withheld_total"].add(key.ring, refusal.limit)
        return Deferred(refusal.why, shard=step.shard)

    def _share_of(self, namespace: str) -> asyncio.Semaphore:
        share = asyncio.Semaphore(max(1, self.limit * 3 // 4))
        return self._shares.setdefault(namespace, share)

    def _remember(self, key: ObjectKey, older: Set[str], result: PartialObject) -> None:
        self._results.pop(key, None)
        self._results[key] = older, result
        if len(self._results) > MAX_RESULTS:
            del self._results[next(iter(self._results))]

    def _decided(
        self, key: ObjectKey, obj: PartialObject, decide: Decide
    ) -> tuple[RingSnapshot, Step]:
        """Return the step by the ring as it is now; `Keep` if it is not ours.

        Raises:
            Superseded: nothing would be written by us.
        """
        snapshot = self.current(key.ring)
        role = snapshot.roles.get(key.resource)
        if role is None or not snapshot.selects(obj, role):
            return snapshot, Keep("out of scope")
        step = self.plan(snapshot, obj, decide)
        completes = isinstance(step, Assign) and snapshot.owner_of(obj) is None
        if self.takes or isinstance(step, Keep) or role is Role.CONTROLLED or completes:
            return snapshot, step
        return snapshot, Keep("left to the leader")

    def plan(self, snapshot: RingSnapshot, obj: PartialObject, decide: Decide) -> Step:
        """Return the step, and report an error of the ring's strategy."""
        step = decide(snapshot, obj)
        if isinstance(step, Keep) and step.fault:
            self.written.at_fault(snapshot.name, step.why)
        return step

    def wait(self, snapshot: RingSnapshot, resource: Resource, obj: PartialObject) -> float:
        """Return for how many seconds a main object without owner must not be assigned yet.

        0 for any other object.  This is checked before the children move, and after a conflict.
        """
        is_main = snapshot.roles[resource.id] is not Role.CONTROLLED
        if snapshot.owner_of(obj) is not None or not is_main:
            return 0.0
        key = ObjectKey(snapshot.name, resource.id, obj.metadata.ref)
        _, written = self._results.get(key, (frozenset[str](), obj))
        was_assigned = (
            written.metadata.uid == obj.metadata.uid and snapshot.owner_of(written) is not None
        )
        record, version = self.table.get(key), obj.metadata.resource_version
        if State.UNASSIGNED in record.states:
            self.table.enter(key, State.UNASSIGNED, version=version)  # it can be a later one
        release, now = record.release, self.objects.server_time()
        if is_surely_free(snapshot, obj, release, was_assigned=was_assigned, now=now):
            return 0.0
        since = self.table.unassigned_since(key, version)
        if (goal := snapshot.direction_of(obj)) is not None and snapshot.leads(obj):
            # Another replica might not see yet that the shard in its `next` is gone.
            ended = self._ports.cache.membership.last_worked(snapshot.name, goal)
            since = max(since, ended or since)
        return max(0.0, since + UNSEEN_SECONDS - self._ports.clock.monotonic())

    def current(self, ring: RingName) -> RingSnapshot:
        """Return the snapshot by which the steps of a ring are decided at this moment.

        Raises:
            Superseded: we lost leadership, do not see the Leases, or the ring is deleted.
        """
        snapshot = self._ports.cache.snapshot(ring)
        if snapshot is None or not self.is_current(snapshot):
            raise Superseded(f"ring {ring} has changed")
        return snapshot

    def is_current(self, snapshot: RingSnapshot) -> bool:
        """Return whether steps decided from `snapshot` are those that are decided now."""
        return self._ports.may_write() and self._ports.cache.is_current(snapshot)

    def check(self, snapshot: RingSnapshot) -> None:
        """Raise `Superseded` unless steps decided from `snapshot` are those decided now."""
        if not self.is_current(snapshot):
            raise Superseded(f"ring {snapshot.name} has changed")


def _taken_from(
    snapshot: RingSnapshot, key: ObjectKey, obj: PartialObject, step: Step
) -> ShardName | None:
    """Return the shard from which the step takes the object without asking it, if any.

    A controlled object is taken from no shard: its controller has left that shard before.
    """
    is_controlled = snapshot.roles[key.resource] is Role.CONTROLLED
    is_taken = isinstance(step, Assign | Send) and not is_controlled
    return snapshot.owner_of(obj) if is_taken else None

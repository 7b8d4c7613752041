"""Carry single objects over: those that their shard has let go, that have no owner, or failed.

An object is read again before anything is decided, so whoever found it need not be right.  What
an object without owner controls is relabelled first, then the object is assigned, so that the new
shard never meets children that still belong to the old one (docs/protocol.md, "Moving objects").
"""

from collections import defaultdict
from collections.abc import Mapping
from contextlib import nullcontext

from sharder.controllers.movement.failures import Failures, Report
from sharder.controllers.movement.following import Following
from sharder.controllers.movement.moves import Mover, Superseded
from sharder.controllers.movement.reading import Reading
from sharder.controllers.movement.resync import AGAIN_SECONDS, Locks
from sharder.controllers.movement.transfer import Transfer
from sharder.controllers.movement.waiting import BACKOFF, GATHER_SECONDS, Flow, Waiting
from sharder.controllers.world import World
from sharder.errors import ApiError
from sharder.names import ObjectRef, RingName, ShardName
from sharder.ports import Objects
from sharder.runtime.backoff import Rng
from sharder.snapshot import RingSnapshot, Role


class HandOver:
    """Takes what waits one step on, many objects of a resource at once."""

    def __init__(
        self,
        *,
        world: World,
        objects: Objects,
        mover: Mover,
        failures: Failures,
        at_fault: Report,
        waiting: Waiting,
        locks: Locks,
        rng: Rng,
    ) -> None:
        """`at_fault` is told what a ring's strategy did wrong; a pass tells when that is over."""
        self._world = world
        self._objects = objects
        self._mover = mover
        self._failures = failures
        self._at_fault = at_fault
        self._waiting = waiting
        self._locks = locks
        self._rng = rng
        self._blamed: dict[RingName, RingSnapshot] = {}
        """By which a fault of the ring's strategy was last told."""
        self._vain = defaultdict[Flow, int](int)
        """How often in a row something that concerns all objects could not be read."""

    async def run(self) -> None:
        """Carry over until cancelled."""
        await self._waiting.run(self.carry_over)

    def forget(self, flow: Flow) -> None:
        """Drop what waits of a resource that is no resource of the ring any more."""
        self._waiting.forget(flow)
        self._failures.forget(flow)
        self._vain.pop(flow, None)
        self._blamed.pop(flow.ring, None)

    async def carry_over(self, flow: Flow) -> float | None:
        """Take on all objects that are due; return in how many seconds another is.

        Raises:
            ApiError: something that concerns all of them could not be read; they wait on.
        """
        role = self._role(flow)
        if role is None:
            self.forget(flow)
            return None
        # Where both move owners with what they control, wait for the resync.
        async with nullcontext() if role is Role.MAIN else self._locks[flow.ring]:
            snapshot = self._world.snapshot(flow.ring)
            if snapshot is not None and self._role(flow) is role:
                await self._take_on(snapshot, flow)
        return self._waiting.next_in(flow)

    def _role(self, flow: Flow) -> Role | None:
        snapshot = self._world.snapshot(flow.ring)
        return None if snapshot is None else snapshot.roles.get(flow.resource)

    async def _take_on(self, snapshot: RingSnapshot, flow: Flow) -> None:
        shards = self._waiting.take(flow)
        left = dict.fromkeys(shards, GATHER_SECONDS)
        try:
            if shards:
                left = await self._step(snapshot, flow, shards)
        except Superseded:
            if self._world.snapshot(flow.ring) is snapshot:
                # No new snapshot has come: we lead no more, or do not see the Leases.
                left = dict.fromkeys(shards, AGAIN_SECONDS)
        except ApiError:
            self._vain[flow] += 1
            left = dict.fromkeys(shards, BACKOFF.delay(self._vain[flow], self._rng))
            raise
        else:
            self._vain.pop(flow, None)
        finally:
            self._waiting.put_back(flow, shards, left)

    async def _step(
        self, snapshot: RingSnapshot, flow: Flow, shards: Mapping[ObjectRef, ShardName]
    ) -> dict[ObjectRef, float]:
        """Return those that wait for others, and for how many seconds."""
        resource = await self._objects.find(flow.resource)
        objects, mover, failures = self._objects, self._mover, self._failures
        reading = Reading(
            snapshot, resource, objects=objects, failures=failures, limit=mover.limit
        )
        found = await reading.run(shards)
        if not mover.takes:
            found = [obj for obj in found if snapshot.owner_of(obj) is None]
        if snapshot.roles[flow.resource] is Role.CONTROLLED:
            following = Following(snapshot, objects=objects, mover=mover)
            await following.run(resource, found)
            return {}
        early = {
            obj.metadata.ref: seconds
            for obj in found
            if not shards[obj.metadata.ref] and (seconds := mover.wait(snapshot, resource, obj))
        }
        due = [obj for obj in found if obj.metadata.ref not in early]
        transfer = Transfer(snapshot, objects=objects, mover=mover, failures=failures)
        left = early | await transfer.run(resource, due, shards)
        if transfer.fault is not None:
            self._blame(snapshot, transfer.fault)
        return left

    def _blame(self, snapshot: RingSnapshot, fault: str) -> None:
        """Tell the first fault: it may be another one with every object."""
        known = self._blamed.get(snapshot.name)
        if known is None or not known.places_like(snapshot):
            self._blamed[snapshot.name] = snapshot
            self._at_fault(snapshot.name, fault)

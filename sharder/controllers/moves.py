"""Carry one step out: one guarded write, decided again at the moment it is sent.

Between a decision and its write the world goes on.  So each attempt asks again whether this
process still leads and whether the snapshot still stands; a write that lost a race reads the
object again and is decided anew (docs/protocol.md, "Moving objects").
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from sharder.api.lease import Lease
from sharder.api.meta import Json, PartialObject
from sharder.controllers.world import World
from sharder.errors import Conflict, NotFound, Rejected, SharderError
from sharder.leases import is_given_up
from sharder.names import GroupResource, RingName
from sharder.patches import assign, drain, withdraw
from sharder.plan import Assign, Drain, Keep, Relabel, Step, Withdraw
from sharder.ports import Objects, Readable, Resource
from sharder.snapshot import RingSnapshot

MAX_ATTEMPTS = 5
"""Lost races on one object before it is left to the back-off: somebody writes it all the time."""

_log = logging.getLogger(__name__)

Decide = Callable[[PartialObject], Step]


class Superseded(SharderError):  # noqa: N818 - reads as a fact, like the others
    """What a pass was decided from does not stand any more: begin anew."""


class Counter(Protocol):
    """Counts the steps that were carried out."""

    def moved(self, ring: RingName, resource: GroupResource) -> None:
        """An object was given to a shard."""
        ...

    def drained(self, ring: RingName, resource: GroupResource) -> None:
        """A shard was asked to let go of an object."""
        ...


class Mover:
    """Writes steps, at most `limit` at a time over all rings."""

    def __init__(
        self,
        *,
        world: World,
        objects: Objects,
        leases: Readable[Lease],
        leads: Callable[[], bool],
        counter: Counter,
        limit: int,
    ) -> None:
        """`leads` tells whether our leader Lease is unexpired at this moment."""
        self._world = world
        self._objects = objects
        self._leases = leases
        self._leads = leads
        self._counter = counter
        self._slots = asyncio.Semaphore(limit)

    async def move(
        self, snapshot: RingSnapshot, resource: Resource, obj: PartialObject, decide: Decide
    ) -> Step:
        """Bring the object one step on; return the step that was carried out.

        Raises:
            Superseded: we lead no more, or the ring has changed: nothing was written.
            ApiError: the write failed and is worth another try later.
        """
        store = self._objects.of(resource)
        for _ in range(MAX_ATTEMPTS):
            step = decide(obj)
            body = patch_of(snapshot, obj, step)
            if body is None:
                return step
            try:
                async with self._slots:
                    if not self.check(snapshot).selects(obj):
                        return Keep("out of scope")
                    result = await store.patch(obj.metadata.ref, body)
            except Conflict:
                try:
                    obj = await store.get(obj.metadata.ref)
                except NotFound:
                    return Keep("it is gone")
            except NotFound:
                return Keep("it is gone")
            else:
                self._done(snapshot, resource, result, step)
                return step
        raise Conflict(f"{resource.id} {obj.metadata.ref} is written by others all the time")

    async def confirm(self, snapshot: RingSnapshot) -> None:
        """Ask the API server itself whether those that we take for gone are.

        Our watch may be half dead: then a shard is back and at work, unseen.  Its objects bear no
        mark of that, so no resourceVersion would stop us.

        Raises:
            Superseded: a shard is back.
            ApiError: there was no answer.
        """
        for sighting in self._world.membership.sightings(snapshot.name):
            if is_given_up(sighting.lease):
                try:
                    lease = await self._leases.get(sighting.lease.metadata.ref)
                except NotFound:
                    continue
                if not is_given_up(lease):
                    raise Superseded(f"shard {lease.metadata.name} is back")

    def check(self, snapshot: RingSnapshot) -> RingSnapshot:
        """Return the ring's snapshot of now; a step of `snapshot` may be written by it.

        Raises:
            Superseded: we lead no more, or the ring has changed.
        """
        current = self._world.snapshot(snapshot.name)
        if current is None or not self._leads() or not self._world.is_current(snapshot):
            raise Superseded(f"ring {snapshot.name} has changed")
        return current

    def _done(
        self, snapshot: RingSnapshot, resource: Resource, result: PartialObject, step: Step
    ) -> None:
        """Count the step, if the response shows it: another webhook may have undone it."""
        match step:
            case Assign(shard) | Relabel(shard) if snapshot.owner_of(result) == shard:
                self._counter.moved(snapshot.name, resource.id)
            case Assign() | Relabel():
                raise _undone(snapshot.owner_label, resource, result)
            case Drain() if snapshot.is_draining(result):
                self._counter.drained(snapshot.name, resource.id)
            case Drain():
                raise _undone(snapshot.drain_label, resource, result)
            case Withdraw() | Keep():
                pass
        fields = {"ring": snapshot.name, "object": str(result.metadata.ref), "step": repr(step)}
        _log.debug("carried out", extra=fields)


def _undone(label: str, resource: Resource, result: PartialObject) -> Rejected:
    return Rejected(
        f"the label {label} of {resource.id} {result.metadata.ref} was removed as we wrote it: "
        "look for another admission webhook or policy that changes labels"
    )


def patch_of(snapshot: RingSnapshot, obj: PartialObject, step: Step) -> Json | None:
    """Return the patch that carries the step out, None for a step without a write."""
    match step:
        case Assign(shard) | Relabel(shard):
            return assign(snapshot, obj.metadata, shard)
        case Drain():
            return drain(snapshot, obj.metadata)
        case Withdraw():
            return withdraw(snapshot, obj.metadata)
        case Keep():
            return None

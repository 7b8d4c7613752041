"""Carry objects over that their shard has let go.

The leader watches what is draining.  An object that leaves that watch was acknowledged, deleted
or needs nothing; which, is read from the object itself.  What an acknowledged object controls is
relabelled first, then the object is assigned, so that the new shard never meets children that
still belong to the old one (docs/protocol.md, "Moving objects").
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import NamedTuple, TypeAlias

from sharder.api.meta import PartialObject
from sharder.clock import Clock
from sharder.controllers.moves import Mover, Superseded
from sharder.controllers.resync import Locks
from sharder.controllers.transfer import UNKNOWN, Transfer
from sharder.controllers.world import World
from sharder.errors import ApiError, NotFound
from sharder.names import GroupResource, ObjectRef, RingName, ShardName, drain_label, owner_label
from sharder.ports import Changed, Listed, Objects, Removed, Resource
from sharder.runtime.backoff import Backoff, Rng
from sharder.runtime.queue import WorkQueue
from sharder.runtime.watch import follow
from sharder.snapshot import RingSnapshot, Role

BACKOFF = Backoff(base=2.0, cap=300.0)
"""Between attempts at objects that could not be written (docs/protocol.md)."""

GATHER_SECONDS = 0.05
"""How long acknowledgements are gathered, so that children are listed once for many."""

CONCURRENCY = 64
"""Resources handed over at once: one that waits for its ring's resync keeps no other waiting."""

Event: TypeAlias = Listed[PartialObject] | Changed[PartialObject] | Removed[PartialObject]


class Flow(NamedTuple):
    """A main resource of a ring: its drains are watched and handed over together."""

    ring: RingName
    resource: GroupResource


class HandOver:
    """Watches the drains of all rings and carries over what was acknowledged."""

    def __init__(
        self,
        *,
        world: World,
        objects: Objects,
        mover: Mover,
        locks: Locks,
        clock: Clock,
        rng: Rng,
        limit: int,
    ) -> None:
        self._world = world
        self._objects = objects
        self._mover = mover
        self._locks = locks
        self._clock = clock
        self._rng = rng
        self._limit = limit
        self._queue = WorkQueue[Flow](clock=clock, rng=rng, backoff=BACKOFF)
        self._released: defaultdict[Flow, dict[ObjectRef, ShardName]] = defaultdict(dict)
        self._watches: dict[Flow, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    def ring_changed(self, _ring: RingName) -> None:
        """Look again at which resources are to be watched."""
        self._changed.set()

    async def run(self) -> None:
        """Watch and carry over until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(
                self._queue.run(self._carry_over, concurrency=CONCURRENCY), name="hand over"
            )
            try:
                while True:
                    self._changed.clear()
                    self._adjust(group)
                    await self._changed.wait()
            finally:
                self._watches.clear()

    def _adjust(self, group: asyncio.TaskGroup) -> None:
        """Start and end watches so that there is one per main resource of every ring."""
        wanted = set[Flow]()
        for ring in self._world.rings():
            snapshot = self._world.snapshot(ring)
            roles = snapshot.roles if snapshot is not None else {}
            wanted |= {Flow(ring, r) for r, role in roles.items() if role is not Role.CONTROLLED}
        for flow in self._watches.keys() - wanted:
            self._watches.pop(flow).cancel()
        for flow in wanted - self._watches.keys():
            self._watches[flow] = group.create_task(self._watch(flow), name=f"drains {flow}")

    async def _watch(self, flow: Flow) -> None:
        """Follow what is draining; begins anew where the resource is not served as it was.

        The resync reports a resource that cannot be read.
        """
        draining, failures = dict[ObjectRef, ShardName](), 0
        while True:
            try:
                resource = await self._objects.find(flow.resource)
                async with aclosing(self._drains(flow, resource)) as events:
                    async for event in events:
                        failures = 0
                        self._take_note(flow, draining, event)
            except ApiError:
                failures += 1
                await self._clock.sleep(BACKOFF.delay(failures, self._rng))

    def _drains(self, flow: Flow, resource: Resource) -> AsyncGenerator[Event, None]:
        return follow(
            self._objects.of(resource, drain_label(flow.ring)),
            doing=f"watch drains of {flow.resource}",
            clock=self._clock,
            rng=self._rng,
            on_error=_raise_if_not_served,
        )

    def _take_note(self, flow: Flow, draining: dict[ObjectRef, ShardName], event: Event) -> None:
        """Keep `draining` up to date; what has left it is released."""

        def owner(obj: PartialObject) -> ShardName:
            # A shard that lets go in two writes may take its own label off first.
            shard = ShardName(obj.metadata.label(owner_label(flow.ring)))
            return shard or draining.get(obj.metadata.ref, UNKNOWN)

        match event:
            case Listed(items):
                now = {obj.metadata.ref: owner(obj) for obj in items}
                self._release(flow, {r: s for r, s in draining.items() if r not in now})
                draining.clear()
                draining.update(now)
            case Changed(obj):
                draining[obj.metadata.ref] = owner(obj)
            case Removed(obj):
                self._release(flow, {obj.metadata.ref: owner(obj)})
                draining.pop(obj.metadata.ref, None)

    def _release(self, flow: Flow, released: dict[ObjectRef, ShardName]) -> None:
        if released:
            self._released[flow].update(released)
            self._queue.add_after(flow, GATHER_SECONDS)

    async def _carry_over(self, flow: Flow) -> float | None:
        """Carry over all that was released; what could not be is tried again."""
        snapshot = self._world.snapshot(flow.ring)
        released = self._released.pop(flow, {})
        if snapshot is None or snapshot.roles.get(flow.resource) in {None, Role.CONTROLLED}:
            return None
        transfer = Transfer(snapshot, objects=self._objects, mover=self._mover, limit=self._limit)
        left = released
        try:
            async with self._turn(flow, snapshot):
                left = await transfer.run(flow.resource, released)
        except Superseded:
            return GATHER_SECONDS
        finally:
            self._released[flow] = left | self._released[flow]
        if transfer.error is not None:
            raise transfer.error
        return None

    def _turn(
        self, flow: Flow, snapshot: RingSnapshot
    ) -> AbstractAsyncContextManager[object, bool | None]:
        """Wait for the resync where both move owners with what they control."""
        leads = snapshot.roles[flow.resource] is Role.LEADING
        return self._locks[flow.ring] if leads else nullcontext()


def _raise_if_not_served(error: ApiError | None) -> None:
    """End the watch of a resource that is gone, or served in other versions only."""
    if isinstance(error, NotFound):
        raise error

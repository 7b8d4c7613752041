"""Bring every object of a ring to the shard that the ring wants.

Only the leader runs this: when availability, the ring's generation or its namespaces change, and
once per sync period.  Memory does not grow with the number of objects: of the main objects only
those are remembered that wait for a drain and control others (docs/protocol.md, "Moving objects").
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing, suppress
from functools import partial
from typing import Protocol

from sharder.api.meta import PartialObject
from sharder.api.resource import Resource
from sharder.api.ring import RingResource
from sharder.clock import Clock
from sharder.controllers.movement.batch import batch
from sharder.controllers.movement.cover import WHOLE, Cover, cover_of
from sharder.controllers.movement.failures import HeldBack, Report
from sharder.controllers.movement.moves import Decide, Mover, Superseded
from sharder.controllers.movement.rights import naming_the_rule
from sharder.controllers.world import World
from sharder.errors import ApiError, Expired, InvalidObject, NotFound, Unavailable
from sharder.membership import Members
from sharder.names import GroupResource, RingName
from sharder.plan import Keep, Step
from sharder.planner import Owners, plan_controlled, plan_main, plan_owned
from sharder.ports import Objects
from sharder.runtime.watch import closing
from sharder.snapshot import RingSnapshot, Role

AGAIN_SECONDS = 1.0
"""After a pass that was superseded: the change itself has queued the ring at once."""

LATE_SECONDS = 15.0
"""After a pass over a ring whose shards had changed: what was admitted before, by a webhook that
did not know yet, may be stored only now.  Longer than webhook and request may take together."""

_log = logging.getLogger(__name__)

Locks = defaultdict[RingName, asyncio.Lock]
"""One per ring: who holds it may move owners together with what they control."""


class Stopwatch(Protocol):
    """Takes the time of passes."""

    def resynced(self, ring: RingName, seconds: float) -> None:
        """A pass over all objects of the ring has ended."""
        ...


class Resync:
    """Reconciles all objects of one ring, by the ring's name."""

    def __init__(
        self,
        *,
        world: World,
        objects: Objects,
        mover: Mover,
        locks: Locks,
        report: Report,
        stopwatch: Stopwatch,
        clock: Clock,
        sync_period: float,
    ) -> None:
        """`report` is told what could not be read; `sync_period` is in seconds."""
        self._world = world
        self._objects = objects
        self._mover = mover
        self._locks = locks
        self._report = report
        self._stopwatch = stopwatch
        self._clock = clock
        self._sync_period = sync_period
        self._members: dict[RingName, Members] = {}
        """By which each ring's last pass was decided."""

    async def reconcile(self, name: RingName) -> float | None:
        """Pass over the ring's objects; return in how many seconds to do so again.

        A pass whose snapshot is replaced ends at once, to begin anew.

        Raises:
            ApiError: some objects could not be read.
        """
        snapshot = self._world.snapshot(name)
        if snapshot is None:
            self._members.pop(name, None)
            return None
        began = self._clock.monotonic()
        cover = cover_of(snapshot.namespaces, self._world.known_namespaces())
        current = Pass(snapshot, cover=cover, objects=self._objects, mover=self._mover)
        try:
            await current.run(self._locks[name])
        except Superseded:
            return AGAIN_SECONDS
        if current.problem is None and current.expired is not None:
            raise current.expired
        seconds = self._clock.monotonic() - began
        self._stopwatch.resynced(name, seconds)
        _log.info("resynced", extra={"ring": name, "why": f"{seconds:.1f} s"})
        self._report(name, current.problem)
        if current.problem is not None:
            raise Unavailable(current.problem)
        known, self._members[name] = self._members.get(name), snapshot.members
        settled = known == snapshot.members
        return self._sync_period if settled else min(LATE_SECONDS, self._sync_period)


class Pass:
    """One pass over a ring's objects, all decided from one snapshot."""

    def __init__(
        self, snapshot: RingSnapshot, *, cover: Cover, objects: Objects, mover: Mover
    ) -> None:
        """`cover` shows everything in scope; what lies outside costs little then."""
        self.problem: str | None = None
        self.expired: Expired | None = None
        """A list took too long, which is nobody's fault: not all objects were seen."""
        self._snapshot = snapshot
        self._objects = objects
        self._mover = mover
        self._cover = cover
        names = ",".join(sorted(snapshot.members.available))
        self._stranded = f"{snapshot.owner_label} notin ({names})"
        self._settled = f"{snapshot.owner_label} in ({names})"

    async def run(self, lock: asyncio.Lock) -> None:
        """Rescue what nobody works on, then follow the hash; problems end up in `problem`.

        `lock` keeps the hand-over away while owners and what they control are moved.
        """
        self._mover.check(self._snapshot)
        main = self._snapshot.ring.spec.resources
        for resource in main:
            await self._noting(resource.id, self._rescue(resource, lock))
        for resource in main:
            await self._noting(resource.id, self._follow_hash(resource))

    async def _rescue(self, main: RingResource, lock: asyncio.Lock) -> None:
        """Give objects that nobody works on to their shard; what they control goes first."""
        resource = await self._find(main.id)
        if self._snapshot.roles[main.id] is not Role.LEADING:
            await self._move_all(resource, self._stranded, partial(plan_main, self._snapshot))
            return
        async with lock:
            owners = await self._displaced(main)
            await self._gather(main, owners)
            await self._move_all(resource, self._stranded, partial(self._plan_stranded, owners))

    async def _displaced(self, main: RingResource) -> Owners:
        """Learn who waits for a drain, of all resources that control what `main` controls."""
        owners, controlled = Owners(), set(main.controlled_resources)
        for other in self._snapshot.ring.spec.resources:
            if controlled & set(other.controlled_resources):
                try:
                    await self._learn(await self._find(other.id), owners)
                except NotFound as error:
                    self._unreadable(other.id, error)
        return owners

    async def _learn(self, resource: Resource, owners: Owners) -> None:
        with naming_the_rule(resource.id):
            async for obj in self._stream(resource):
                if self._snapshot.selects(obj):
                    owners.note(self._snapshot, obj, plan_main(self._snapshot, obj))

    async def _gather(self, main: RingResource, owners: Owners) -> None:
        """Bring what the main objects control to where these are, or will be in a moment."""
        decide = partial(plan_controlled, self._snapshot, owners=owners)
        for controlled in main.controlled_resources:
            if self._snapshot.roles[controlled.id] is not Role.CONTROLLED:
                continue
            try:
                resource = await self._find(controlled.id)
                await self._move_all(resource, self._stranded, decide)
                await self._move_all(resource, self._settled, decide)
            except NotFound as error:
                # Nothing of it exists that the main objects would have to wait for.
                self._unreadable(controlled.id, error)

    def _plan_stranded(self, owners: Owners, obj: PartialObject) -> Step:
        """Leave an object that let go a moment ago to the hand-over: its children go first."""
        if owners.waits(obj):
            return Keep("its shard has just let go, what it controls goes first")
        return plan_main(self._snapshot, obj)

    async def _follow_hash(self, main: RingResource) -> None:
        """Ask shards to let go of what the ring wants elsewhere."""
        resource = await self._find(main.id)
        await self._move_all(resource, self._settled, partial(plan_owned, self._snapshot))

    async def _move_all(self, resource: Resource, labels: str, decide: Decide) -> None:
        """Move what matches; without shards only look whether it could be read."""
        with naming_the_rule(resource.id):
            if not self._snapshot.members.available:
                async with aclosing(self._stream(resource, labels)) as objects:
                    await anext(objects, None)
                return
            async with batch(self._mover.limit) as writes:
                async for obj in self._stream(resource, labels):
                    self._mover.check(self._snapshot)
                    if self._snapshot.selects(obj) and not isinstance(decide(obj), Keep):
                        await writes.add(self._attempt(resource, obj, decide))

    async def _stream(
        self, resource: Resource, labels: str = ""
    ) -> AsyncGenerator[PartialObject, None]:
        for part in self._cover if resource.namespaced else WHOLE:
            store = self._objects.of(
                resource, labels, namespace=part.namespace, fields=part.fields
            )
            async with closing(store.stream()) as objects:
                async for obj in objects:
                    yield obj

    async def _attempt(self, resource: Resource, obj: PartialObject, decide: Decide) -> None:
        """Move one object; one that cannot be written is tried again by itself."""
        with suppress(ApiError, InvalidObject, HeldBack):
            await self._mover.move(self._snapshot, resource, obj, decide)

    async def _noting(self, resource: GroupResource, work: Awaitable[None]) -> None:
        """Let the other resources go on when one cannot be read."""
        try:
            await work
        except Expired as error:
            self.expired = error
        except ApiError as error:
            self._unreadable(resource, error)

    def _unreadable(self, resource: GroupResource, error: ApiError) -> None:
        """Remember the first problem; `resource` or what it controls cannot be looked after."""
        hint = "; correct spec.resources, or install it" if isinstance(error, NotFound) else ""
        self.problem = self.problem or f"cannot read {resource}: {error}{hint}"

    async def _find(self, resource: GroupResource) -> Resource:
        with naming_the_rule(resource):
            return await self._objects.find(resource)

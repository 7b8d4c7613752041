"""One pass over all objects of a ring, decided from one snapshot.

Rescue first, then relieve shards that have too many, then follow the placement.  Memory does not
grow with the number of objects: of the main objects only those are remembered that wait for a
drain and control others (docs/protocol.md, "Moving objects").
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import aclosing
from functools import partial

from sharder.api.meta import PartialObject
from sharder.api.resource import Resource
from sharder.api.ring import RingResource
from sharder.controllers.mistakes import Mistakes
from sharder.controllers.movement.batch import batch
from sharder.controllers.movement.cover import WHOLE, Cover
from sharder.controllers.movement.failures import HeldBack
from sharder.controllers.movement.moves import Decide, Mover
from sharder.controllers.movement.muster import Muster
from sharder.controllers.movement.rights import naming_the_rule
from sharder.errors import ApiError, Expired, InvalidObject, NotFound
from sharder.names import GroupResource, ShardName
from sharder.placement.displacement import Displaced
from sharder.plan import Keep, Step
from sharder.planner import (
    Owners,
    Promises,
    hold_of,
    plan_controlled,
    plan_displaced,
    plan_main,
    plan_owned,
)
from sharder.ports import Objects
from sharder.runtime.watch import closing
from sharder.snapshot import RingSnapshot, Role


class Pass:
    """One pass over a ring's objects, all decided from one snapshot."""

    def __init__(
        self,
        snapshot: RingSnapshot,
        *,
        cover: Cover,
        objects: Objects,
        mover: Mover,
        mistakes: Mistakes,
    ) -> None:
        """`cover` shows everything in scope; what lies outside costs little then."""
        self.muster = Muster(snapshot)
        self.problem: str | None = None
        self.expired: Expired | None = None
        """A list took too long, which is nobody's fault: not all objects were seen."""
        self._snapshot = snapshot
        self._promises = Promises(snapshot)
        self._objects = objects
        self._mover = mover
        self._mistakes = mistakes
        self._cover = cover
        names = ",".join(sorted(snapshot.members.available))
        self._stranded = f"{snapshot.owner_label} notin ({names})"
        self._settled = f"{snapshot.owner_label} in ({names})"
        # Where objects are counted, only these may have to move: those without a working shard,
        # those that were asked for, and those for which people ask.
        asked = [f"{self._settled},{key}" for key in (snapshot.drain_label, snapshot.pin_label)]
        sticks = snapshot.tally is not None
        self._following = asked if sticks else [self._settled]
        # In this order: what lets go between two lists is in the second one at least.
        self._displacing = [*asked, self._stranded] if sticks else [""]

    async def run(self, lock: asyncio.Lock) -> None:
        """Rescue what nobody works on, then relieve full shards, then follow the placement.

        Problems end up in `problem`.

        `lock` keeps the hand-over away while owners and what they control are moved.
        """
        self._mover.check(self._snapshot)
        try:
            await self._run(lock)
        finally:
            self._promises.give_back()

    async def _run(self, lock: asyncio.Lock) -> None:
        main = self._snapshot.ring.spec.resources
        for resource in main:
            await self._noting(resource.id, self._rescue(resource, lock))
        for shard, excess in self._excess().items():
            await self._relieve(shard, excess)
        for resource in main:
            await self._noting(resource.id, self._follow(resource))

    async def _rescue(self, main: RingResource, lock: asyncio.Lock) -> None:
        """Give objects that nobody works on to their shard; what they control goes first."""
        resource = await self._find(main.id)
        if self._snapshot.roles[main.id] is not Role.LEADING:
            await self._move_main(resource, self._stranded, partial(plan_main, self._snapshot))
            return
        async with lock:
            owners = await self._displaced(main)
            await self._gather(main, owners)
            await self._move_main(resource, self._stranded, partial(self._plan_stranded, owners))

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
        """Read all objects, or where they are counted those that may be displaced."""
        with naming_the_rule(resource.id):
            for labels in self._displacing:
                async for obj in self._stream(resource, labels):
                    if self._snapshot.selects(obj):
                        owners.note(self._snapshot, obj, self._promises.plan(obj))

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
        return self._promises.keep(obj)

    def _excess(self) -> Mapping[ShardName, int]:
        """Return how many objects each shard has too many, as far as they are counted."""
        tally = self._snapshot.tally
        if tally is None or not tally.synced:
            return {}
        return self._snapshot.placer.ceilings(tally).excess()

    async def _relieve(self, shard: ShardName, excess: int) -> None:
        """Ask a shard that has too many objects to let go of those that are drawn to it least."""
        displaced = Displaced[tuple[Resource, PartialObject]](excess)
        for main in self._snapshot.ring.spec.resources:
            await self._noting(main.id, self._offer(main, shard, displaced))
        decide = partial(plan_displaced, self._snapshot, shard=shard)
        async with batch(self._mover.limit) as writes:
            for resource, obj in displaced.items():
                await writes.add(self._attempt(resource, obj, decide))

    async def _offer(
        self,
        main: RingResource,
        shard: ShardName,
        displaced: Displaced[tuple[Resource, PartialObject]],
    ) -> None:
        """Consider what the shard has of a resource; what leaves it anyhow relieves it no more."""
        resource = await self._find(main.id)
        with naming_the_rule(resource.id):
            async for obj in self._stream(resource, f"{self._snapshot.owner_label}={shard}"):
                if self._snapshot.selects(obj) and self._snapshot.entry_of(obj).stays:
                    displaced.offer(hold_of(self._snapshot, obj, shard), (resource, obj))

    async def _follow(self, main: RingResource) -> None:
        """Ask shards to let go of what belongs elsewhere, and take such requests back."""
        resource = await self._find(main.id)
        for labels in self._following:
            await self._move_main(resource, labels, partial(plan_owned, self._snapshot))

    async def _move_main(self, resource: Resource, labels: str, decide: Decide) -> None:
        """Move objects of a main resource, and take note of each on the way."""

        def noting(obj: PartialObject) -> Step:
            step = decide(obj)
            self.muster.note(obj, step)
            self._mistakes.look(self._snapshot, obj)
            return step

        await self._move_all(resource, labels, decide, first=noting)

    async def _move_all(
        self, resource: Resource, labels: str, decide: Decide, *, first: Decide | None = None
    ) -> None:
        """Move what matches; without shards only look whether it could be read.

        `first` is asked instead of `decide` whether there is anything to do with an object.
        """
        first = first or decide
        with naming_the_rule(resource.id):
            if not self._snapshot.members.available:
                async with aclosing(self._stream(resource, labels)) as objects:
                    await anext(objects, None)
                return
            async with batch(self._mover.limit) as writes:
                async for obj in self._stream(resource, labels):
                    self._mover.check(self._snapshot)
                    if self._snapshot.selects(obj) and not isinstance(first(obj), Keep):
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
        try:
            step = await self._mover.move(self._snapshot, resource, obj, decide)
        except (ApiError, InvalidObject, HeldBack) as error:
            self.muster.failed(error)
        else:
            self.muster.carried_out(obj, step)

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

"""One pass over parts of a ring, decided from one snapshot; each part runs for itself.

First rescue objects without a working shard, those that lead others after these, then drain full
shards, then follow the placement.  Memory does not grow with the number of objects: main objects
are remembered only if they wait for a drain and control others (docs/protocol.md, "Moving
objects").
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Final

from sharder.controllers.counting.unread_parts import Unreadable, UnreadParts
from sharder.controllers.movement.children import Gathering, controlled_by
from sharder.controllers.movement.handover import Handover
from sharder.controllers.movement.handover_queue import AT_ONCE
from sharder.controllers.movement.mover import Decide, Deferred, Mover
from sharder.controllers.ports import Ports
from sharder.controllers.scope import (
    ListScope,
    Part,
    naming_the_rule,
    requests_of,
    scope_of,
)
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import ApiError, NotFound
from sharder.core.movement.desired import excess_of
from sharder.core.movement.planner import (
    Parents,
    following_labels,
    is_stranded,
    keep_priority_of,
    plan_displaced,
    plan_owned,
    stranded_labels,
)
from sharder.core.movement.step import Keep
from sharder.core.names import GroupResource, ShardName
from sharder.core.placement.ranking import LowestPriorities
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.runtime.task_pool import Batch, batch

CONCURRENT_PARTS: Final = 8
"""Parts of a pass that are listed at the same time: each holds a page of up to 8 MB."""

WAIT_SECONDS: Final = 10.0
"""Seconds for which a pass waits for its budget, counted from the first deferred drain; the
remaining drains wait for the next pass (docs/protocol.md, "Budgets")."""

RETRY_SECONDS: Final = 0.2
"""Seconds between two checks of the budget; an acknowledgement takes about as long."""


@dataclass(slots=True, kw_only=True, eq=False)
class ListedPart:
    """A part of a main resource, and what a pass learns from its lists."""

    part: Part
    resource: Resource
    """The resource, as it is served."""
    parents: Parents = field(default_factory=Parents)
    uncontrolled: int = 0
    """The listed objects of controlled resources that have no controller."""


class RingPass:
    """A pass over some parts."""

    def __init__(
        self, snapshot: RingSnapshot, ports: Ports, mover: Mover, handover: Handover
    ) -> None:
        self._snapshot = snapshot
        self._ports = ports
        self._mover = mover
        self._handover = handover
        self.unread: dict[Part, Unreadable] = {}
        """The parts that could not be read, and the controlled resources that are not served."""
        self.again_in = inf
        """Seconds until the next pass can drain more; infinite if no drain is left to it."""
        self._waits_until: float | None = None

    async def run(self, part: Part | None, skips: UnreadParts) -> list[ListedPart]:
        """Pass over one part, or over all but those that are skipped; return the parts read.

        Raises:
            Superseded: we lost leadership, or the ring has changed.
        """
        self._mover.check(self._snapshot)

        def is_wanted(each: Part) -> bool:
            return each not in skips if part is None else each.resource == part.resource

        parts = list[ListedPart]()
        scope = (part.namespace,) if part and part.namespace else scope_of(self._snapshot)
        for main in self._snapshot.resources:
            whole = Part(self._snapshot.name, main.id)
            if is_wanted(whole):
                parts += [p for p in await self._parts(whole, scope) if is_wanted(p.part)]
        await self._each(parts, self._rescue)
        for shard, excess in excess_of(self._snapshot).items() if part is None else ():
            await self._drain_excess(parts, shard, excess)
        await self._each(parts, self._follow)
        return [each for each in parts if each.part not in self.unread]

    async def _parts(self, whole: Part, list_scope: ListScope) -> list[ListedPart]:
        try:
            resource = await self._find(whole.resource)
        except Unreadable as error:
            self.unread[whole] = error
            return []
        return [
            ListedPart(part=whole._replace(namespace=namespace), resource=resource)
            for namespace in requests_of(resource, list_scope)
        ]

    async def _each(
        self, parts: Collection[ListedPart], work: Callable[[ListedPart], Awaitable[None]]
    ) -> None:
        """Run `work` on each part that could be read so far."""

        async def noting(part: ListedPart) -> None:
            try:
                await work(part)
            except Unreadable as error:
                self.unread[part.part] = error

        async with batch(CONCURRENT_PARTS) as running:
            for part in parts:
                if part.part not in self.unread:
                    await running.add(noting(part))

    # The three phases

    async def _rescue(self, part: ListedPart) -> None:
        """Assign objects without a working shard, those that lead others after these."""
        free = list[PartialObject]()
        async with batch(self._mover.limit) as writes:
            async for obj in self._main_objects(part, stranded_labels(self._snapshot)):
                if is_stranded(self._snapshot, obj):
                    free.append(obj)
                else:
                    await self._move_if_owned(writes, part, obj)
                if len(free) >= AT_ONCE:
                    await self._hand_over(part, free)
        await self._hand_over(part, free)

    async def _hand_over(self, part: ListedPart, free: list[PartialObject]) -> None:
        left = await self._handover.rescue(self._snapshot, part.resource, free)
        for obj in free if self._leads(part) else ():
            if obj.metadata.ref in left:
                part.parents.note(self._snapshot, obj)
        free.clear()

    async def _drain_excess(
        self, parts: Collection[ListedPart], shard: ShardName, excess: int
    ) -> None:
        """Drain the objects above a ceiling, except those that leave the shard anyway."""
        displaced = LowestPriorities[tuple[Resource, PartialObject]](excess)

        async def offer(part: ListedPart) -> None:
            labels = f"{self._snapshot.owner_label}={shard}"
            async with aclosing(self._stream(part, part.resource, labels)) as found:
                async for obj in found:
                    if self._snapshot.selects(obj) and self._snapshot.entry_of(obj).stays:
                        priority = keep_priority_of(self._snapshot, obj, shard)
                        displaced.offer(priority, (part.resource, obj))

        await self._each(parts, offer)
        async with batch(self._mover.limit) as writes:
            for resource, obj in displaced.items():
                await writes.add(self._move(resource, obj, partial(plan_displaced, shard=shard)))

    async def _follow(self, part: ListedPart) -> None:
        """Drain objects that belong elsewhere, withdraw outdated drains, and gather children."""
        for labels in following_labels(self._snapshot):
            async with batch(self._mover.limit) as writes:
                async for obj in self._main_objects(part, labels):
                    await self._move_if_owned(writes, part, obj)
        for controlled in controlled_by(self._snapshot, part.resource.id):
            await self._gather(part, controlled)

    # Main objects

    async def _main_objects(
        self, part: ListedPart, labels: str
    ) -> AsyncGenerator[PartialObject, None]:
        """Yield the matching main objects in scope, and learn where each is.

        One without a working shard is expected where it goes, unless it is left after its rescue.
        """
        leads = self._leads(part)
        async with aclosing(self._stream(part, part.resource, labels)) as found:
            async for obj in found:
                is_selected = self._snapshot.selects(obj)
                if leads and not (is_selected and is_stranded(self._snapshot, obj)):
                    part.parents.note(self._snapshot, obj)
                if is_selected:
                    self._ports.annotation_warnings.check(self._snapshot, obj)
                    yield obj

    def _leads(self, part: ListedPart) -> bool:
        return self._snapshot.roles[part.resource.id] is Role.LEADING

    async def _move_if_owned(self, writes: Batch, part: ListedPart, obj: PartialObject) -> None:
        if not isinstance(self._mover.plan(self._snapshot, obj, plan_owned), Keep):
            await writes.add(self._move(part.resource, obj, plan_owned))

    async def _move(self, resource: Resource, obj: PartialObject, decide: Decide) -> None:
        """Move one object, if it is drained when there is room."""
        step = await self._mover.move(self._snapshot.name, resource, obj, decide)
        while isinstance(step, Deferred) and await self._has_room(step.shard):
            step = await self._mover.move(self._snapshot.name, resource, obj, decide)

    async def _has_room(self, shard: ShardName) -> bool:
        """Wait until the budget allows another drain; return False if that takes too long."""
        clock, limits = self._ports.clock, self._snapshot.ring.spec.movement
        if self._waits_until is None:
            self._waits_until = clock.monotonic() + WAIT_SECONDS
        budget = self._mover.table.budget(self._snapshot.name)
        while refusal := budget.refusal(shard, limits, leads=True):
            if clock.monotonic() + refusal.seconds > self._waits_until:
                self.again_in = min(refusal.seconds, self.again_in)
                return False
            await clock.sleep(RETRY_SECONDS)
            self._mover.check(self._snapshot)
        return True

    async def _gather(self, part: ListedPart, controlled: GroupResource) -> None:
        """Move objects that are not with their parents; none if their resource is not served."""
        try:
            resource = await self._find(controlled)
            gathering = Gathering(self._snapshot, self._mover, part.resource.id, part.parents)
            async with aclosing(self._stream(part, resource)) as found:
                with self._reading(part.resource.id):
                    part.uncontrolled += await gathering.run(resource, found)
        except Unreadable as error:
            if not isinstance(error.error, NotFound):
                raise
            self.unread[Part(self._snapshot.name, controlled)] = error

    # Reads

    async def _stream(
        self, part: ListedPart, resource: Resource, labels: str = ""
    ) -> AsyncGenerator[PartialObject, None]:
        """Yield the matching objects of a resource, page by page; some can be out of scope.

        Raises:
            Unreadable: the list failed.
            Superseded: we lost leadership, or the ring has changed.
        """
        namespaced = part.resource.namespaced
        scope = (part.part.namespace,) if namespaced else scope_of(self._snapshot)
        for namespace in requests_of(resource, scope):
            with self._reading(resource.id, namespace):
                store = self._ports.objects.of(resource, labels, namespace=namespace)
                async with aclosing(store.stream()) as found:
                    async for obj in found:
                        self._mover.check(self._snapshot)
                        yield obj

    async def _find(self, of: GroupResource) -> Resource:
        with self._reading(of):
            return await self._ports.objects.find(of)

    @contextmanager
    def _reading(self, of: GroupResource, namespace: str = "") -> Iterator[None]:
        """Raise `Unreadable`, with the missing right, for an error of the API server."""
        try:
            with naming_the_rule(of):
                yield
        except ApiError as error:
            part = Part(self._snapshot.name, of, namespace)
            raise Unreadable(part, error) from error

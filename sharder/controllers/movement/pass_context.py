"""What all parts of a pass share: the snapshot, and the drains that the ring's budget deferred.

A pass waits only a few seconds for its budget; the remaining drains wait for the next pass
(docs/protocol.md, "Budgets").
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from sharder.controllers.annotation_warnings import AnnotationWarnings
from sharder.controllers.counting.resync_stats import ResyncStats
from sharder.controllers.counting.unread_parts import Unreadable
from sharder.controllers.movement.drain_budget import DrainBudget
from sharder.controllers.movement.failures import BackingOff
from sharder.controllers.movement.handover import Handover
from sharder.controllers.movement.mover import Decide, Deferred, Mover
from sharder.controllers.permissions import naming_the_rule
from sharder.controllers.scope import Part, ResourceKey
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import ApiError, InvalidObject
from sharder.core.names import GroupResource, ShardName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.ports import Objects
from sharder.runtime.clock import Clock

MAX_WAITING = 1_000
"""Limit on the drains that a pass remembers: about 4 MB; the next pass finds the others."""

WAIT_SECONDS = 10.0
"""Seconds for which a pass waits for its budget, counted from the first deferred drain."""

RETRY_SECONDS = 0.2
"""Seconds between two checks of the budget; an acknowledgement takes about as long."""

MIN_SECONDS, MAX_SECONDS = 1.0, 15.0
"""Limits of the seconds until the next pass if drains are still deferred at the end of a pass; the
maximum is as long as after a change, because a pass also rescues objects, which needs no
budget."""


class DeferredDrain(NamedTuple):
    """An object whose drain was deferred; it is decided again before the write."""

    resource: Resource
    obj: PartialObject
    decide: Decide


class DeferredDrains:
    """The deferred drains, and whether waiting for them is worth it."""

    def __init__(self, snapshot: RingSnapshot, *, drains: DrainBudget, clock: Clock) -> None:
        self._snapshot = snapshot
        self._drains = drains
        self._clock = clock
        self._waiters: dict[ShardName, list[DeferredDrain]] = {}
        self._until: float | None = None
        self._left_out = False

    def add(
        self, resource: Resource, obj: PartialObject, decide: Decide, shard: ShardName
    ) -> None:
        """Remember a deferred drain, up to the limit."""
        if self._until is None:
            self._until = self._clock.monotonic() + WAIT_SECONDS
        if sum(map(len, self._waiters.values())) >= MAX_WAITING:
            self._left_out = True
            return
        waiters = self._waiters.setdefault(shard, [])
        waiters.append(DeferredDrain(resource, obj, decide))

    def take(self) -> Iterator[DeferredDrain]:
        """Yield and remove the drains that the budget seems to allow, in order."""
        for shard in list(self._waiters):
            if self._wait(shard) <= 0:
                yield from self._waiters.pop(shard)

    def lasts(self) -> bool:
        """Return whether the budget can allow a drain before the pass has to end."""
        if self._until is None:
            return False
        left = self._until - self._clock.monotonic()
        return left > 0 and any(self._wait(shard) < left for shard in self._waiters)

    def again_in(self) -> float | None:
        """Return in how many seconds the next pass can do more, None if nothing was deferred."""
        if not self._waiters and not self._left_out:
            return None
        wait = min((self._wait(shard) for shard in self._waiters), default=0.0)
        return min(max(wait, MIN_SECONDS), MAX_SECONDS)

    def _wait(self, shard: ShardName) -> float:
        refusal = self._drains.refusal(self._snapshot, shard)
        return 0.0 if refusal is None else refusal.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PassContext:
    """What all parts of a pass share."""

    snapshot: RingSnapshot
    objects: Objects
    mover: Mover
    handover: Handover
    annotation_warnings: AnnotationWarnings
    stats: ResyncStats
    deferred: DeferredDrains

    async def find(self, of: GroupResource) -> Resource:
        """Return the resource as it is served."""
        with self.reading(of):
            return await self.objects.find(of)

    @contextmanager
    def reading(self, of: GroupResource, namespace: str = "") -> Iterator[None]:
        """Raise `Unreadable`, with the missing right, for an error of the API server."""
        try:
            with naming_the_rule(of):
                yield
        except ApiError as error:
            part = Part(ResourceKey(self.snapshot.name, of), namespace)
            raise Unreadable(part, error) from error

    async def move(self, resource: Resource, obj: PartialObject, decide: Decide) -> None:
        """Move one object; one that cannot be written is retried on its own."""
        try:
            step = await self.mover.move(self.snapshot.name, resource, obj, decide)
        except (ApiError, InvalidObject, BackingOff) as error:
            self.stats.failed(error)
            return
        if isinstance(step, Deferred):
            self.deferred.add(resource, obj, decide, step.shard)
        self.stats.carried_out(self.snapshot, obj, step)

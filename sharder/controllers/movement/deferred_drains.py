"""The drains of one pass for which the ring's budget had no room when they were decided.

A pass waits for room a few seconds only: what is stranded meanwhile is for the next one
(docs/protocol.md, "Budgets").
"""

from collections.abc import Iterator
from typing import NamedTuple

from sharder.controllers.movement.drain_budget import DrainDeferred
from sharder.controllers.movement.mover import Decide, Mover
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.names import ShardName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.runtime.clock import Clock

MAX_WAITING = 1_000
"""Objects that a pass keeps: some 4 MB; the others are met by the next one."""

WAIT_SECONDS = 10.0
"""From the first refusal on; a pass is not made longer than that for room."""

RETRY_SECONDS = 0.2
"""Between two looks whether there is room; an acknowledgement takes about as long."""

MIN_SECONDS, MAX_SECONDS = 1.0, 15.0
"""Before the next pass over a ring for which there was no room to the end; as long as after a
change at most, for orphans do not wait for budgets."""


class DeferredDrain(NamedTuple):
    """An object whose drain was withheld; it is decided again before it is written."""

    resource: Resource
    obj: PartialObject
    decide: Decide


class DeferredDrains:
    """Who waits, since when, and whether that is worth it yet."""

    def __init__(self, snapshot: RingSnapshot, *, mover: Mover, clock: Clock) -> None:
        self._snapshot = snapshot
        self._mover = mover
        self._clock = clock
        self._waiters: dict[ShardName, list[DeferredDrain]] = {}
        self._until: float | None = None
        self._left_out = False

    def add(
        self, resource: Resource, obj: PartialObject, decide: Decide, withheld: DrainDeferred
    ) -> None:
        """Keep an object for later, if there is room for it."""
        if self._until is None:
            self._until = self._clock.monotonic() + WAIT_SECONDS
        if sum(map(len, self._waiters.values())) >= MAX_WAITING:
            self._left_out = True
            return
        waiters = self._waiters.setdefault(withheld.shard, [])
        waiters.append(DeferredDrain(resource, obj, decide))

    def take(self) -> Iterator[DeferredDrain]:
        """Return those for whose drain there seems to be room, in the order they came in."""
        for shard in list(self._waiters):
            if self._wait(shard) <= 0:
                yield from self._waiters.pop(shard)

    def lasts(self) -> bool:
        """Tell whether there may be room for one that waits before the pass has to end."""
        if self._until is None:
            return False
        left = self._until - self._clock.monotonic()
        return left > 0 and any(self._wait(shard) < left for shard in self._waiters)

    def again_in(self) -> float | None:
        """Return in how many seconds the next pass may do more, None if this one did all."""
        if not self._waiters and not self._left_out:
            return None
        wait = min((self._wait(shard) for shard in self._waiters), default=0.0)
        return min(max(wait, MIN_SECONDS), MAX_SECONDS)

    def _wait(self, shard: ShardName) -> float:
        refusal = self._mover.refusal(self._snapshot, shard)
        return 0.0 if refusal is None else refusal.seconds

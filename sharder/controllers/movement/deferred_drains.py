"""The drains of one pass that the ring's budget deferred.

A pass waits only a few seconds for its budget; the remaining drains wait for the next pass
(docs/protocol.md, "Budgets").
"""

from collections.abc import Iterator
from typing import NamedTuple

from sharder.controllers.movement.mover import Decide, Mover
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.names import ShardName
from sharder.core.ring.snapshot import RingSnapshot
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

    def __init__(self, snapshot: RingSnapshot, *, mover: Mover, clock: Clock) -> None:
        self._snapshot = snapshot
        self._mover = mover
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
        refusal = self._mover.refusal(self._snapshot, shard)
        return 0.0 if refusal is None else refusal.seconds

"""Objects that wait for their next step, each once, whoever has found it.

The objects of one resource of a ring are taken together, so that what they control is listed once
for many; each has a time of its own before which it is not looked at (docs/protocol.md, "Moving
objects").
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from sharder.controllers.scope import ObjectKey, ResourceKey
from sharder.core.names import ObjectRef, ShardName
from sharder.runtime.backoff import Backoff, Rng
from sharder.runtime.clock import Clock
from sharder.runtime.workqueue import Worker, WorkQueue

BACKOFF = Backoff(base=2.0, cap=300.0)
"""Between attempts at what could not be written or read (docs/protocol.md, "Moving objects")."""

GATHER_SECONDS = 0.05
"""How long acknowledgements are gathered, so that children are listed once for many."""

POLL_SECONDS = 0.2
"""Patience with an object without owner: the watch of drains tells soon who has let it go, and
then less must be listed."""

CONCURRENCY = 64
"""Resources taken on at once: one that waits for its ring's resync keeps no other waiting."""

UNKNOWN = ShardName("")
"""Stands for the shard of an object of which nobody knows who has let it go."""


class _Due(NamedTuple):
    shard: ShardName
    due: float
    held: bool


class PendingObjects:
    """A queue of resources, and of each the objects with the shards that have let go of them."""

    def __init__(self, *, clock: Clock, rng: Rng, patience: float = 0.0) -> None:
        """`patience` is for how many seconds others are given the chance to do the work."""
        self._clock = clock
        self._patience = patience
        self._queue = WorkQueue[ResourceKey](clock=clock, rng=rng, backoff=BACKOFF)
        self._turns: dict[ResourceKey, dict[ObjectRef, _Due]] = {}

    def release(self, flow: ResourceKey, shards: Mapping[ObjectRef, ShardName]) -> None:
        """Take on objects that these shards have let go."""
        for ref, shard in shards.items():
            self._wait(flow, ref, shard, self._patience + GATHER_SECONDS, held=False)

    def look(self, flow: ResourceKey, refs: Iterable[ObjectRef]) -> None:
        """Take on objects that have no owner."""
        for ref in refs:
            self._wait(flow, ref, UNKNOWN, self._patience + POLL_SECONDS, held=False)

    def settle(self, flow: ResourceKey, refs: Iterable[ObjectRef]) -> None:
        """Drop those of which nobody knows but that they had no owner, for they have one now.

        Where others do the work, all of them: it has been done.
        """
        turns = self._turns.get(flow, {})
        for ref in refs:
            turn = turns.get(ref)
            if turn is None or turn.held:
                continue
            if turn.shard == UNKNOWN or self._patience:
                del turns[ref]

    def retry(self, subject: ObjectKey, seconds: float) -> None:
        """Take the object on again, and not before so many seconds have passed."""
        self._wait(subject.flow, subject.ref, UNKNOWN, seconds, held=True)

    def put_back(
        self,
        flow: ResourceKey,
        shards: Mapping[ObjectRef, ShardName],
        left: Mapping[ObjectRef, float],
    ) -> None:
        """Let those that are `left` of what was taken wait on, for so many seconds each."""
        for ref, seconds in left.items():
            self._wait(flow, ref, shards[ref], seconds, held=True)

    def take(self, flow: ResourceKey) -> dict[ObjectRef, ShardName]:
        """Return the objects that are due, and forget them."""
        turns, now = self._turns.get(flow, {}), self._clock.monotonic()
        due = {ref: turn.shard for ref, turn in turns.items() if turn.due <= now}
        for ref in due:
            del turns[ref]
        return due

    def next_in(self, flow: ResourceKey) -> float | None:
        """Return the seconds until an object is due, None if none waits."""
        turns = self._turns.get(flow)
        if not turns:
            return None
        return max(0.0, min(turn.due for turn in turns.values()) - self._clock.monotonic())

    def forget(self, flow: ResourceKey) -> None:
        """Drop a resource that is no resource of the ring any more."""
        self._turns.pop(flow, None)

    async def run(self, worker: Worker[ResourceKey]) -> None:
        """Hand resources to `worker` until cancelled."""
        await self._queue.run(worker, concurrency=CONCURRENCY)

    def _wait(
        self, flow: ResourceKey, ref: ObjectRef, shard: ShardName, seconds: float, *, held: bool
    ) -> None:
        """Add an object, or what is news of one that waits.

        One that was held back keeps its time, so that it does not come before it however often
        it is written; any other comes when it is first due.
        """
        turns, due = self._turns.setdefault(flow, {}), self._clock.monotonic() + seconds
        known = turns.get(ref)
        if known is not None:
            # Who is known to have let go stays known.
            shard = shard or known.shard
            if known.held or held:
                due = max(known.due, due) if held else known.due
            else:
                due = min(known.due, due)
            held = held or known.held
        turns[ref] = _Due(shard, due, held)
        if known is None or due < known.due:
            self._queue.add_after(flow, seconds)


Retry = Callable[[ObjectKey, float], None]

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

UNASSIGNED_SECONDS = 0.2
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

    def __init__(self, *, clock: Clock, rng: Rng, grace: float = 0.0) -> None:
        """`grace` is for how many seconds others are given the chance to do the work."""
        self._clock = clock
        self._grace = grace
        self._queue = WorkQueue[ResourceKey](clock=clock, rng=rng, backoff=BACKOFF)
        self._objects: dict[ResourceKey, dict[ObjectRef, _Due]] = {}

    def release(self, resource_key: ResourceKey, shards: Mapping[ObjectRef, ShardName]) -> None:
        """Take on objects that these shards have let go."""
        for ref, shard in shards.items():
            self._wait(resource_key, ref, shard, self._grace + GATHER_SECONDS, held=False)

    def look(self, resource_key: ResourceKey, refs: Iterable[ObjectRef]) -> None:
        """Take on objects that have no owner."""
        for ref in refs:
            self._wait(resource_key, ref, UNKNOWN, self._grace + UNASSIGNED_SECONDS, held=False)

    def settle(self, resource_key: ResourceKey, refs: Iterable[ObjectRef]) -> None:
        """Drop those of which nobody knows but that they had no owner, for they have one now.

        Where others do the work, all of them: it has been done.
        """
        objects = self._objects.get(resource_key, {})
        for ref in refs:
            known = objects.get(ref)
            if known is None or known.held:
                continue
            if known.shard == UNKNOWN or self._grace:
                del objects[ref]

    def retry(self, key: ObjectKey, seconds: float) -> None:
        """Take the object on again, and not before so many seconds have passed."""
        self._wait(key.resource_key, key.ref, UNKNOWN, seconds, held=True)

    def put_back(
        self,
        resource_key: ResourceKey,
        shards: Mapping[ObjectRef, ShardName],
        left: Mapping[ObjectRef, float],
    ) -> None:
        """Let those that are `left` of what was taken wait on, for so many seconds each."""
        for ref, seconds in left.items():
            self._wait(resource_key, ref, shards[ref], seconds, held=True)

    def take(self, resource_key: ResourceKey) -> dict[ObjectRef, ShardName]:
        """Return the objects that are due, and forget them."""
        objects, now = self._objects.get(resource_key, {}), self._clock.monotonic()
        due = {ref: known.shard for ref, known in objects.items() if known.due <= now}
        for ref in due:
            del objects[ref]
        return due

    def next_in(self, resource_key: ResourceKey) -> float | None:
        """Return the seconds until an object is due, None if none waits."""
        objects = self._objects.get(resource_key)
        if not objects:
            return None
        return max(0.0, min(known.due for known in objects.values()) - self._clock.monotonic())

    def forget(self, resource_key: ResourceKey) -> None:
        """Drop a resource that is no resource of the ring any more."""
        self._objects.pop(resource_key, None)

    async def run(self, worker: Worker[ResourceKey]) -> None:
        """Hand resources to `worker` until cancelled."""
        await self._queue.run(worker, concurrency=CONCURRENCY)

    def _wait(
        self,
        resource_key: ResourceKey,
        ref: ObjectRef,
        shard: ShardName,
        seconds: float,
        *,
        held: bool,
    ) -> None:
        """Add an object, or what is news of one that waits.

        One that was held back keeps its time, so that it does not come before it however often
        it is written; any other comes when it is first due.
        """
        objects, due = (
            self._objects.setdefault(resource_key, {}),
            self._clock.monotonic() + seconds,
        )
        known = objects.get(ref)
        if known is not None:
            # Who is known to have let go stays known.
            shard = shard or known.shard
            if known.held or held:
                due = max(known.due, due) if held else known.due
            else:
                due = min(known.due, due)
            held = held or known.held
        objects[ref] = _Due(shard, due, held)
        if known is None or due < known.due:
            self._queue.add_after(resource_key, seconds)


Retry = Callable[[ObjectKey, float], None]

"""Which objects of the table are handed over next.

The objects of one part of a ring are handled together, so that their children are listed once
for many; each object has its own due time (docs/protocol.md, "Moving objects").
"""

from collections.abc import Awaitable, Callable, Collection, Iterable
from itertools import islice
from math import inf

from sharder.controllers.movement.table import State, Table
from sharder.controllers.ports import BACKOFF, Ports
from sharder.controllers.scope import ObjectKey, Part
from sharder.core.names import ObjectRef, RingName
from sharder.runtime.workqueue import Worker, WorkQueue

ACKNOWLEDGED_SECONDS = 0.05
"""Delay of a released object: acknowledgements are collected meanwhile, so that children are
listed once for many."""

UNASSIGNED_SECONDS = 0.2
"""Delay of an unassigned object: the watch of drains soon shows which shard released it, and then
fewer children have to be listed."""

AT_ONCE = 2000
"""Objects of a part that are handed over together: up to 3 MB are read for them."""

LEADER_SECONDS = 0.8
"""Seconds before a standby hands over an object: the leader needs less, unless it is gone or very
busy."""

STANDBY_AT_ONCE = 25
"""Objects that are handed over together on standby: between two such batches we look whether
another replica is at work."""

ARRIVALS_SECONDS = 3.0
"""Seconds for which arrivals alone show that another replica is at work: it sends objects before
the first of them gets an owner.  If it died after that, the objects wait no longer."""

CONCURRENCY = 64
"""Parts that are handled at once: one that waits for the API server does not delay others."""


class HandoverQueue:
    """A queue of parts; the table has their objects."""

    def __init__(self, ports: Ports, table: Table) -> None:
        self.table = table
        self._cache = ports.cache
        self._clock = ports.clock
        self._grace = LEADER_SECONDS if ports.stands_by else 0.0
        """Seconds to wait for another replica to do the work, since the object came, and since it
        last did any of the ring's work."""
        self._at_once = STANDBY_AT_ONCE if ports.stands_by else AT_ONCE
        self._queue = WorkQueue[Part](
            clock=ports.clock,
            rng=ports.rng,
            backoff=BACKOFF,
            name="handover",
            metrics=None if ports.stands_by else ports.metrics,
        )
        self._progress: dict[RingName, float] = {}
        """When an object of a ring last got an owner."""
        self._arrived: dict[RingName, float] = {}
        """When an object of a ring last lost its owner."""

    def add(self, key: ObjectKey, *, is_released: bool) -> None:
        """Add an object that a drain released, or an unassigned one, if a shard is available."""
        if is_released:  # so our drain was written, whatever the answer was
            self.table.record(key).not_before = -inf
        snapshot = self._cache.snapshot(key.ring)
        if snapshot is None or not snapshot.members.available:
            return
        if self.table.get(key).due == inf:
            self._arrived[key.ring] = self._clock.monotonic()
        seconds = ACKNOWLEDGED_SECONDS if is_released else UNASSIGNED_SECONDS
        self._add_after(key, self._grace + seconds)

    def retry(self, key: ObjectKey, seconds: float) -> None:
        """Retry the object in `seconds`; not earlier, however often it is written."""
        record = self.table.record(key)
        record.not_before = max(record.not_before, self._clock.monotonic() + seconds)
        self._add_after(key, seconds)

    def settle(self, key: ObjectKey) -> None:
        """Drop an object that has an owner now, unless an attempt at it has failed.

        On standby drop that too: another replica does the work, unless it was our own write.
        """
        record = self.table.get(key)
        if State.UNASSIGNED in record.states and not record.in_work:
            self._progress[key.ring] = self._clock.monotonic()
        if record.due < inf and (self._grace or State.FAILING not in record.states):
            self.table.schedule(key, inf)
        self.table.settle(key)

    def due(self, part: Part) -> Collection[ObjectRef]:
        """Return due objects, not too many at once."""
        now = self._clock.monotonic()
        if now < self._due_at(part):
            return ()
        due = (ref for ref, record in self.table.of(part, waiting=True) if record.next_at <= now)
        return tuple(islice(due, self._at_once))

    async def work(
        self,
        part: Part,
        refs: Iterable[ObjectRef],
        move: Callable[[Collection[ObjectRef]], Awaitable[dict[ObjectRef, float]]],
    ) -> dict[ObjectRef, float]:
        """Move those objects that are not in work yet.

        Those that `move` returns wait again, each for its number of seconds; all if it fails.
        """
        mine = [part.key(ref) for ref in refs if not self.table.get(part.key(ref)).in_work]
        for key in mine:
            self.table.schedule(key, inf).in_work = True
        left = {key.ref: BACKOFF.base for key in mine}
        try:
            left = await move(tuple(left)) if mine else {}
        finally:
            for key in mine:
                record = self.table.get(key)
                record.in_work = False
                if key.ref in left:
                    self.retry(key, left[key.ref])
                elif record.due < inf:  # it was added meanwhile
                    self._add_after(key, inf)
                self.table.tidy(key)
        return left

    def next_in(self, part: Part) -> float | None:
        """Return the seconds until an object is due, None if none waits."""
        due = self._due_at(part)
        return None if due == inf else max(0.0, due - self._clock.monotonic())

    async def run(self, worker: Worker[Part]) -> None:
        """Run `worker` on parts until cancelled."""
        await self._queue.run(worker, concurrency=CONCURRENCY)

    def _due_at(self, part: Part) -> float:
        """Return when the next object is handed over: not while another replica is at work."""
        due = min((record.next_at for _, record in self.table.of(part, waiting=True)), default=inf)
        if not self._grace:
            return due
        arrived = self._arrived.get(part.ring, -inf) + self._grace
        progress = self._progress.get(part.ring, -inf) + self._grace
        return max(due, progress, min(arrived, due + ARRIVALS_SECONDS))

    def _add_after(self, key: ObjectKey, seconds: float) -> None:
        """Let an object be due in `seconds`, or earlier if it is due earlier."""
        now = self._clock.monotonic()
        record = self.table.schedule(key, min(self.table.get(key).due, now + seconds))
        snapshot = self._cache.snapshot(key.ring)
        namespace = key.ref.namespace if snapshot is not None and snapshot.is_split else ""
        wait = max(record.due, record.not_before) - now
        self._queue.add_after(Part(key.ring, key.resource, namespace), max(0.0, wait))

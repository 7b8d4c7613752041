"""Objects that wait for their next step, each once.

The objects of one part of a ring are handled together, so that their dependents are listed once
for many; each object has its own due time (docs/protocol.md, "Moving objects").
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import inf
from typing import NamedTuple

from sharder.controllers.movement.owner_transfer import AT_ONCE
from sharder.controllers.ports import BACKOFF, Ports
from sharder.controllers.scope import ObjectKey, Part, ResourceKey
from sharder.core.names import ObjectRef, RingName
from sharder.runtime.workqueue import Worker, WorkQueue

ACKNOWLEDGED_SECONDS = 0.05
"""Delay of a released object: acknowledgements are collected meanwhile, so that dependents are
listed once for many."""

UNASSIGNED_SECONDS = 0.2
"""Delay of an unassigned object: the watch of drains soon shows which shard released it, and then
fewer dependents have to be listed."""

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


class _Due(NamedTuple):
    due: float
    held: bool


class HandoverQueue:
    """A queue of parts; each has objects."""

    def __init__(self, ports: Ports) -> None:
        self._cache = ports.cache
        self._clock = ports.clock
        self._grace = LEADER_SECONDS if ports.stands_by else 0.0
        """Seconds to wait for another replica to do the work, since the object came, and since it
        last did any of the ring's work."""
        self._queue = WorkQueue[Part](
            clock=ports.clock,
            rng=ports.rng,
            backoff=BACKOFF,
            name="handover",
            metrics=None if ports.stands_by else ports.metrics,
        )
        self._objects: dict[Part, dict[ObjectRef, _Due]] = {}
        self._in_work: dict[Part, set[ObjectRef]] = {}
        self._progress: dict[RingName, float] = {}
        """When an object of a ring last got an owner, if we only stand by."""
        self._arrived: dict[RingName, float] = {}
        """When an object of a ring last lost its owner, if we only stand by."""

    def add(
        self, resource_key: ResourceKey, refs: Iterable[ObjectRef], *, are_released: bool
    ) -> None:
        """Add objects that a drain released, or unassigned ones."""
        seconds = ACKNOWLEDGED_SECONDS if are_released else UNASSIGNED_SECONDS
        for ref in refs:
            if self._wait(resource_key, ref, self._grace + seconds, held=False):
                self._arrived[resource_key.ring] = self._clock.monotonic()

    def start(
        self, resource_key: ResourceKey, refs: Iterable[ObjectRef]
    ) -> Mapping[Part, set[ObjectRef]]:
        """Take objects, whether they wait or not, but those that are in work already."""
        mine = defaultdict[Part, set[ObjectRef]](set)
        for ref in refs:
            part = self._part_of(resource_key, ref)
            in_work = self._in_work.setdefault(part, set())
            if ref not in in_work:
                in_work.add(ref)
                mine[part].add(ref)
                self._objects.get(part, {}).pop(ref, None)
        return mine

    def settle(self, resource_key: ResourceKey, refs: Iterable[ObjectRef]) -> None:
        """Drop objects that have an owner now, unless an attempt at them has failed.

        With a grace period drop those too: another replica does the work.
        """
        for ref in refs:
            objects = self._objects.get(self._part_of(resource_key, ref), {})
            known = objects.get(ref)
            if self._grace:
                self._progress[resource_key.ring] = self._clock.monotonic()
                objects.pop(ref, None)
            elif known is not None and not known.held:
                del objects[ref]

    def retry(self, key: ObjectKey, seconds: float) -> None:
        """Retry the object in `seconds`, not earlier."""
        self._wait(key.resource_key, key.ref, seconds, held=True)

    def take(self, part: Part) -> Sequence[ObjectRef]:
        """Return due objects, at most `AT_ONCE` or `STANDBY_AT_ONCE`, and remove them."""
        objects, now = self._objects.get(part, {}), self._clock.monotonic()
        if now < self._earliest(part):
            return ()
        in_work = self._in_work.setdefault(part, set())
        every = (r for r, known in objects.items() if known.due <= now and r not in in_work)
        due = tuple(islice(every, STANDBY_AT_ONCE if self._grace else AT_ONCE))
        for ref in due:
            del objects[ref]
        in_work.update(due)
        return due

    def finish(
        self,
        part: Part,
        refs: Iterable[ObjectRef],
        left: Mapping[ObjectRef, float],
        *,
        held: bool = True,
    ) -> None:
        """End the work on objects; those in `left` wait again, each for its number of seconds.

        If they are held, nothing lets them be tried earlier.
        """
        in_work = self._in_work.get(part, set())
        in_work.difference_update(refs)
        if not in_work:
            self._in_work.pop(part, None)
        for ref, seconds in left.items():
            self._wait(part.resource_key, ref, seconds, held=held)
        next_in = self._next_in(part)
        if next_in is not None:
            self._queue.add_after(part, next_in)

    def _next_in(self, part: Part) -> float | None:
        """Return the seconds until an object is due, None if none waits."""
        objects, in_work = self._objects.get(part), self._in_work.get(part, set())
        if not objects:
            self._objects.pop(part, None)
            return None
        dues = (known.due for ref, known in objects.items() if ref not in in_work)
        due = max(self._earliest(part), min(dues, default=inf))
        return None if due == inf else max(0.0, due - self._clock.monotonic())

    def _earliest(self, part: Part) -> float:
        """Return when we act at the earliest: not while another replica is at work."""
        if not self._grace:
            return -inf
        first = min((known.due for known in self._objects.get(part, {}).values()), default=-inf)
        arrived = self._arrived.get(part.ring, -inf) + self._grace
        progress = self._progress.get(part.ring, -inf) + self._grace
        return max(progress, min(arrived, first + ARRIVALS_SECONDS))

    def forget(self, resource_key: ResourceKey) -> None:
        """Forget a resource that was removed from the ring."""
        for part in [part for part in self._objects if part.resource_key == resource_key]:
            del self._objects[part]

    async def run(self, worker: Worker[Part]) -> None:
        """Run `worker` on parts until cancelled."""
        await self._queue.run(worker, concurrency=CONCURRENCY)

    def _part_of(self, resource_key: ResourceKey, ref: ObjectRef) -> Part:
        snapshot = self._cache.snapshot(resource_key.ring)
        is_split = snapshot is not None and snapshot.is_split
        return Part(resource_key, ref.namespace if is_split else "")

    def _wait(
        self,
        resource_key: ResourceKey,
        ref: ObjectRef,
        seconds: float,
        *,
        held: bool,
    ) -> bool:
        """Add an object, or update one that waits; return whether it is new.

        An object that is held back keeps its due time, however often it is written; any other
        object keeps its earliest due time.
        """
        part, due = self._part_of(resource_key, ref), self._clock.monotonic() + seconds
        objects = self._objects.setdefault(part, {})
        known = objects.get(ref)
        if known is not None:
            if known.held or held:
                due = max(known.due, due) if held else known.due
            else:
                due = min(known.due, due)
            held = held or known.held
        objects[ref] = _Due(due, held)
        if known is None or due < known.due:
            self._queue.add_after(part, seconds)
        return known is None

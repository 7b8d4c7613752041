"""Remove the labels and annotations of a ring from the objects of one resource."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from sharder.core.api.meta import PartialObject
from sharder.core.errors import Conflict, Expired, NotFound, SharderError, Unavailable
from sharder.core.movement import patches
from sharder.core.names import ObjectRef, RingName, drain_label, next_annotation, owner_label
from sharder.ports import Store
from sharder.runtime.backoff import Backoff, Rng
from sharder.runtime.clock import Clock
from sharder.runtime.task_pool import batch

CONCURRENT_WRITES: Final = 50
"""Half of the service's default `concurrentMoves`: a clean-up is not urgent."""

CHECKED_EVERY: Final = 500
"""Objects between two checks that the ring has not returned: a page of a list."""

MAX_TRIES: Final = 5
"""Attempts to write an object that conflict or get no answer, before the object has failed."""

_BACKOFF: Final = Backoff(base=0.2, cap=5.0)
"""Between two attempts: a conflict is over at once, a restart of the API server takes seconds."""


@dataclass(slots=True)
class Tally:
    """The results for the objects of a resource so far."""

    found: int = 0
    cleaned: int = 0
    skipped: int = 0
    objects: list[ObjectRef] = field(default_factory=list)
    """The objects found, in a dry run only."""
    failures: dict[ObjectRef, SharderError] = field(default_factory=dict)
    """Errors by object."""
    problem: SharderError | None = None
    """The error that ended the search early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One pass over a resource; each write is guarded, so it is safe to rerun."""

    store: Store[PartialObject]
    ring: RingName
    dry_run: bool
    check: Callable[[], Awaitable[None]]
    """Raises if the ring has the resource again; called per list, and `CHECKED_EVERY` objects."""
    on_progress: Callable[[Tally], None]
    """Called after each object."""
    clock: Clock
    rng: Rng

    async def run(self) -> Tally:
        """Find and clean the objects; failures are in the tally."""
        tally, owner, drain = Tally(), owner_label(self.ring), drain_label(self.ring)
        for labels in (owner, f"!{owner},{drain}"):
            error = await self._search(labels, tally)
            while isinstance(error, Expired) and not self.dry_run:
                # A continue token expires after minutes; a new list lacks the cleaned objects.
                before = tally.found
                error = await self._search(labels, tally)
                if tally.found == before:
                    break
            if error is not None:
                tally.problem = error
                break
        return tally

    async def _search(self, labels: str, tally: Tally) -> SharderError | None:
        """Clean the listed objects; return the error that ended the list early."""
        async with batch(CONCURRENT_WRITES) as writes:
            try:
                await self.check()
                async for obj in self.store.stream(labels):
                    if obj.metadata.ref in tally.failures:
                        continue
                    tally.found += 1
                    if tally.found % CHECKED_EVERY == 0:
                        await self.check()
                    await writes.add(self._handle(obj, tally))
            except SharderError as error:
                return error
        return None

    async def _handle(self, obj: PartialObject, tally: Tally) -> None:
        ref = obj.metadata.ref
        if self.dry_run:
            tally.objects.append(ref)
            tally.skipped += 1
        else:
            try:
                cleaned = await self._clean(obj)
            except SharderError as error:
                tally.failures[ref] = error
            else:
                tally.cleaned += cleaned
                tally.skipped += not cleaned
        self.on_progress(tally)

    async def _clean(self, obj: PartialObject) -> bool:
        """Write until the object is clean; return False if it was clean already, or is gone."""
        tries = 0
        while self._is_marked(obj):
            try:
                return await self._write(obj)
            except NotFound:
                return False
            except (Conflict, Unavailable):
                tries += 1
                if tries == MAX_TRIES:
                    raise
            await self.clock.sleep(_BACKOFF.delay(tries, self.rng))
            try:
                obj = await self.store.get(obj.metadata.ref)
            except NotFound:
                return False
        return False

    async def _write(self, obj: PartialObject) -> bool:
        patch = patches.forget(
            obj.metadata,
            owner=owner_label(self.ring),
            drain=drain_label(self.ring),
            direction=next_annotation(self.ring),
        )
        after = await self.store.patch(obj.metadata.ref, patch)
        if self._is_marked(after):
            raise SharderError("another client restores the labels: check the mutating webhooks")
        return True

    def _is_marked(self, obj: PartialObject) -> bool:
        keys = (owner_label(self.ring), drain_label(self.ring))
        return any(obj.metadata.has_label(key) for key in keys)

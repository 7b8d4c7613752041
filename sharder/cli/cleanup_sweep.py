"""Remove the labels and annotations of a ring from the objects of one resource."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from sharder.cli.cluster import Cluster
from sharder.cli.reports import CleanupFailure, CleanupRow
from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.errors import (
    ApiError,
    Conflict,
    Expired,
    Forbidden,
    NotFound,
    SharderError,
    Unavailable,
)
from sharder.core.movement import patches
from sharder.core.names import (
    GroupResource,
    ObjectRef,
    RingName,
    drain_label,
    next_annotation,
    owner_label,
)
from sharder.core.plurals import named
from sharder.ports import Store
from sharder.runtime.backoff import Backoff
from sharder.runtime.task_pool import batch

CONCURRENT_WRITES: Final = 50
"""Half of the service's default `concurrentMoves`: a clean-up is not urgent."""

CHECKED_EVERY: Final = 500
"""Objects between two checks that the ring has not returned: a page of a list."""

MAX_TRIES: Final = 5
"""Attempts to write an object that conflict or get no answer, before the object has failed."""

REJECTED_IN_A_ROW: Final = 20
"""Failed objects of a namespace in a row after which its other objects are not tried: a quota or a
webhook there rejects all, perhaps slowly."""

_NAMESPACES: Final = GroupResource("", "namespaces")

_BACKOFF: Final = Backoff(base=0.2, cap=5.0)
"""Between two attempts: a conflict is over at once, a restart of the API server takes seconds."""


@dataclass(slots=True)
class Tally:
    """The results for the objects of a resource so far."""

    found: int = 0
    cleaned: int = 0
    skipped: int = 0
    objects: dict[ObjectRef, None] = field(default_factory=dict)
    """The objects found, in a dry run only."""
    failures: dict[ObjectRef, SharderError] = field(default_factory=dict)
    """Errors by object."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Failed objects in a row, by namespace."""
    problem: SharderError | None = None
    """The error that ended the search early."""


def line_of(resource: GroupResource, tally: Tally) -> str:
    """Return the progress of a resource as a line for people."""
    failed = f", {len(tally.failures)} failed" if tally.failures else ""
    problem = f", stopped: {tally.problem}" if tally.problem else ""
    return f"{resource}: {tally.found} found, {tally.cleaned} cleaned{failed}{problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One pass over a resource; each write is guarded, so it is safe to rerun.

    If the objects of all namespaces cannot be listed together, each namespace is cleaned for
    itself.
    """

    cluster: Cluster
    resource: Resource
    ring: RingName
    dry_run: bool
    check: Callable[[GroupResource], Awaitable[None]]
    """Raises if the ring has the resource again; called per list, and `CHECKED_EVERY` objects."""

    async def run(self) -> CleanupRow:
        """Find and clean the objects; failures are in the row."""
        tally = Tally()
        self.cluster.shown.show(line_of(self.resource.id, tally))
        tally.problem = await self._clean_in("", tally)
        if isinstance(tally.problem, ApiError) and not isinstance(tally.problem, NotFound):
            tally.problem = await self._clean_each(tally, tally.problem)
        if tally.found:
            self.cluster.shown.finish(line_of(self.resource.id, tally))
        return CleanupRow(
            resource=str(self.resource.id),
            found=tally.found,
            cleaned=tally.cleaned,
            skipped=tally.skipped,
            failed=len(tally.failures),
            objects=tuple(map(str, tally.objects)),
            failures=tuple(
                CleanupFailure(object=str(r), why=str(e), forbidden=isinstance(e, Forbidden))
                for r, e in tally.failures.items()
            ),
            problem=None if tally.problem is None else str(tally.problem),
            forbidden=isinstance(tally.problem, Forbidden),
        )

    async def _clean_each(self, tally: Tally, problem: ApiError) -> SharderError | None:
        """Clean each namespace for itself; return why some could not be listed, if any."""
        failed = dict[str, SharderError]()
        try:
            spaces = self.cluster.objects.of(await self.cluster.objects.find(_NAMESPACES))
            names = [space.metadata.name async for space in spaces.stream()]
        except ApiError:
            return problem
        for name in names if self.resource.namespaced else ():
            error = await self._clean_in(name, tally)
            if error is not None and not isinstance(error, ApiError):
                return error
            if error is not None:
                failed[name] = error
        if len(failed) == len(names) or not self.resource.namespaced:
            return problem
        first = next(iter(failed.values()), None)
        return first and type(first)(f"in {named(list(failed))}: {first}")

    async def _clean_in(self, namespace: str, tally: Tally) -> SharderError | None:
        """Clean a namespace, or all; return the first error that ended a list early."""
        owner, drain = owner_label(self.ring), drain_label(self.ring)
        store = self.cluster.objects.of(self.resource, namespace=namespace)
        problem: SharderError | None = None
        for labels in (owner, f"!{owner},{drain}"):
            error = await self._search(store, labels, tally)
            while isinstance(error, Expired) and not self.dry_run:
                # A continue token expires after minutes; a new list lacks the cleaned objects.
                before = tally.found
                error = await self._search(store, labels, tally)
                if tally.found == before:
                    break
            problem = problem or error
            if error is not None and not isinstance(error, ApiError):
                break
        return problem

    async def _search(
        self, store: Store[PartialObject], labels: str, tally: Tally
    ) -> SharderError | None:
        """Clean the listed objects; return the error that ended the list early."""
        async with batch(CONCURRENT_WRITES) as writes:
            try:
                await self.check(self.resource.id)
                async for obj in store.stream(labels):
                    if obj.metadata.ref in tally.failures or obj.metadata.ref in tally.objects:
                        continue
                    tally.found += 1
                    if tally.found % CHECKED_EVERY == 0:
                        await self.check(self.resource.id)
                    await writes.add(self._handle(obj, tally))
            except SharderError as error:
                return error
        return None

    async def _handle(self, obj: PartialObject, tally: Tally) -> None:
        ref = obj.metadata.ref
        if self.dry_run:
            tally.objects[ref] = None
            tally.skipped += 1
        else:
            try:
                cleaned = await self._clean(obj, tally.rejected[ref.namespace])
            except SharderError as error:
                tally.failures[ref] = error
                tally.rejected[ref.namespace] += 1
            else:
                tally.cleaned += cleaned
                tally.skipped += not cleaned
                tally.rejected[ref.namespace] = 0
        self.cluster.shown.show(line_of(self.resource.id, tally))

    @property
    def _store(self) -> Store[PartialObject]:
        return self.cluster.objects.of(self.resource)

    async def _clean(self, obj: PartialObject, rejected: int) -> bool:
        """Write until the object is clean; return False if it was clean already, or is gone.

        `rejected` is how many objects of its namespace have just failed in a row.
        """
        if rejected >= REJECTED_IN_A_ROW:
            raise SharderError(f"not tried: all writes in {obj.metadata.namespace} fail")
        store, tries = self.cluster.objects.of(self.resource), 0
        while self._is_marked(obj):
            try:
                after = await store.patch(obj.metadata.ref, self._patch(obj))
            except NotFound:
                return False
            except (Conflict, Unavailable):
                tries += 1
                if tries == MAX_TRIES:
                    raise
                await self.cluster.clock.sleep(_BACKOFF.delay(tries, self.cluster.rng))
                try:
                    obj = await store.get(obj.metadata.ref)
                except NotFound:
                    return False
                continue
            if self._is_marked(after):
                raise SharderError(
                    "another client restores the labels: check the mutating webhooks"
                )
            return True
        return False

    def _patch(self, obj: PartialObject) -> Json:
        return patches.forget(
            obj.metadata,
            owner=owner_label(self.ring),
            drain=drain_label(self.ring),
            direction=next_annotation(self.ring),
        )

    def _is_marked(self, obj: PartialObject) -> bool:
        keys = (owner_label(self.ring), drain_label(self.ring))
        return any(obj.metadata.has_label(key) for key in keys)

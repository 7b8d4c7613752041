"""`sharder cleanup`: remove the labels and annotations that a deleted ring has left."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from sharder.cli.cluster import Cluster
from sharder.cli.lookup import ring_named
from sharder.cli.reports import CleanupFailure, CleanupReport, CleanupRow
from sharder.cli.tables import shortfalls
from sharder.cli.words import resource_named
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import (
    ApiError,
    ConfigError,
    Conflict,
    Forbidden,
    NotFound,
    SharderError,
    Unavailable,
)
from sharder.core.leases.state import is_held
from sharder.core.movement import patches
from sharder.core.names import (
    RING_LABEL,
    GroupResource,
    ObjectRef,
    RingName,
    drain_label,
    next_annotation,
    owner_label,
)
from sharder.core.plurals import named
from sharder.core.ring.build import roles_of
from sharder.runtime.task_pool import batch

CONCURRENT_WRITES: Final = 50
"""Half of the service's default `concurrentMoves`: a clean-up is not urgent."""

CHECKED_EVERY: Final = 500
"""Objects between two checks that the ring has not returned: a page of a list."""

PAUSES: Final = (0.2, 0.4, 0.8, 1.6)
"""Seconds before another attempt to write an object, after a conflict or without an answer."""


async def clean_up(
    cluster: Cluster, *, ring: str, resources: Sequence[str], dry_run: bool
) -> CleanupReport:
    """Clean one resource after the other; failures are in the report.

    Without `resources`, these are all that can be listed and patched.

    Raises:
        ConfigError: the ring exists and has one of the resources, or its name is not valid.
        ApiError: the resources cannot be discovered.
    """
    name = ring_named(ring)
    existing = await _find(cluster, name)
    if existing is not None and not resources:
        raise ConfigError(
            f"ControllerRing {name} exists, so the sharder would assign its objects again: "
            "delete the ring, or clean only a resource that has left it, with --resource"
        )
    targets, warnings = await _targets(cluster, resources)
    for target in targets if resources else ():
        _require_absence(existing, target.id)
    if existing is None:
        warnings += await _left_over(cluster, name)
    for warning in warnings:
        cluster.shown.warn(warning)
    sweeps = [Sweep(cluster, target, name, dry_run=dry_run) for target in targets]
    rows = [await sweep.run() for sweep in sweeps]
    return CleanupReport(
        ring=name,
        dry_run=dry_run,
        looked_at=len(rows),
        resources=tuple(row for row in rows if row.found or row.problem),
        warnings=tuple(warnings),
    )


def require_complete(report: CleanupReport) -> None:
    """Raise if anything failed.

    Raises:
        SharderError: the message names the first failures.
    """
    if failed := [f"{what} ({why})" for what, why in shortfalls(report)]:
        raise SharderError(f"cleanup is incomplete: {named(failed)}; fix these and rerun")


@dataclass(slots=True)
class Sweep:
    """One pass over a resource, and its results; each write is guarded, so it is safe to rerun."""

    cluster: Cluster
    resource: Resource
    ring: RingName
    dry_run: bool = field(kw_only=True)
    found: list[str] = field(default_factory=list)
    cleaned: int = 0
    failures: dict[str, SharderError] = field(default_factory=dict)

    async def run(self) -> CleanupRow:
        """Find and clean the objects; failures are in the row."""
        owner, drain = _labels(self.ring)
        problems = [await self._clean_all(labels) for labels in (owner, f"!{owner},{drain}")]
        problem = next(filter(None, problems), None)
        if self.found:
            self.cluster.shown.finish(self._line())
        return CleanupRow(
            resource=str(self.resource.id),
            found=len(self.found),
            cleaned=self.cleaned,
            skipped=len(self.found) - self.cleaned - len(self.failures),
            failed=len(self.failures),
            objects=tuple(self.found) if self.dry_run else (),
            failures=tuple(
                CleanupFailure(object=name, why=str(error), forbidden=isinstance(error, Forbidden))
                for name, error in self.failures.items()
            ),
            problem=None if problem is None else str(problem),
            forbidden=isinstance(problem, Forbidden),
        )

    async def _clean_all(self, labels: str) -> SharderError | None:
        """Clean the objects that the selector selects; return the error that ended their list."""
        async with batch(CONCURRENT_WRITES) as writes:
            try:
                await self._require_absence()
                async for obj in self.cluster.objects.of(self.resource).stream(labels):
                    self.found.append(str(obj.metadata.ref))
                    self.cluster.shown.show(self._line())
                    if len(self.found) % CHECKED_EVERY == 0:
                        await self._require_absence()
                    if not self.dry_run:
                        await writes.add(self._clean(obj))
            except SharderError as error:
                return error
        return None

    async def _require_absence(self) -> None:
        _require_absence(await _find(self.cluster, self.ring), self.resource.id)

    async def _clean(self, obj: PartialObject) -> None:
        try:
            is_cleaned = await self._write(obj)
            self.cleaned += is_cleaned  # read after the wait: others count meanwhile
        except SharderError as error:
            self.failures[str(obj.metadata.ref)] = error
        self.cluster.shown.show(self._line())

    async def _write(self, obj: PartialObject) -> bool:
        """Write until the object is clean; return False if it was clean already, or is gone."""
        store, owner, drain = self.cluster.objects.of(self.resource), *_labels(self.ring)
        direction = next_annotation(self.ring)
        with suppress(NotFound):
            for pause in (*PAUSES, None):
                if not obj.metadata.has_label(owner) and not obj.metadata.has_label(drain):
                    return False
                patch = patches.forget(obj.metadata, owner=owner, drain=drain, direction=direction)
                try:
                    after = (await store.patch(obj.metadata.ref, patch)).metadata
                except (Conflict, Unavailable):
                    if pause is None:
                        raise
                    await self.cluster.clock.sleep(pause)
                    obj = await store.get(obj.metadata.ref)
                    continue
                if after.has_label(owner) or after.has_label(drain):
                    raise SharderError(
                        "another client restores the labels: check the mutating webhooks"
                    )
                return True
        return False

    def _line(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"{self.resource.id}: {len(self.found)} found, {self.cleaned} cleaned{failed}"


async def _find(cluster: Cluster, name: RingName) -> ControllerRing | None:
    try:
        return await cluster.rings.get(ObjectRef("", name))
    except NotFound:  # the ring does not exist, or its CRD does not
        return None


def _require_absence(ring: ControllerRing | None, resource: GroupResource) -> None:
    if ring is not None and resource in roles_of(ring):
        raise ConfigError(
            f"{resource} is part of ControllerRing {ring.name}, which would assign its objects "
            "again: remove it from the ring first"
        )


def _labels(ring: RingName) -> tuple[str, str]:
    return owner_label(ring), drain_label(ring)


async def _targets(cluster: Cluster, words: Sequence[str]) -> tuple[list[Resource], list[str]]:
    """Return the resources to clean, and warnings."""
    if not words:
        found = await cluster.served()
        silent = [f"API group {g} is unavailable; rerun when it is back" for g in found.silent]
        return list(found.resources), silent
    named = list[Resource]()
    for word in words:
        name, _, group = word.partition(".")
        try:
            named.append(await cluster.objects.find(GroupResource(group, name)))
        except NotFound:
            resource = resource_named(word, (await cluster.served()).resources)
            if resource is None:
                raise
            named.append(resource)
    return list(dict.fromkeys(named)), []


async def _left_over(cluster: Cluster, ring: RingName) -> list[str]:
    """Return warnings about other leftovers of a deleted ring."""
    warnings: list[str] = []
    labels = f"{RING_LABEL}={ring}"
    try:
        warnings += [
            f"MutatingWebhookConfiguration {configuration.metadata.name} still exists; a running "
            "sharder deletes it, otherwise delete it yourself"
            async for configuration in cluster.configurations.stream(labels)
        ]
        held = [str(s.metadata.ref) async for s in cluster.leases.stream(labels) if is_held(s)]
    except ApiError as error:
        return [*warnings, f"cannot check for other leftovers of the ring: {error}"]
    if held:
        warnings.append(f"{len(held)} shards still hold Leases of the ring: {named(held)}")
    return warnings

"""`sharder rings cleanup`: remove the labels and annotations that a deleted ring has left."""

import random  # noqa: TID251 - the composition root creates it
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sharder.cli import connection
from sharder.cli.cleanup_sweep import Sweep, Tally
from sharder.cli.lookup import ring_named
from sharder.cli.progress import Progress, progress
from sharder.cli.reports import CleanupFailure, CleanupReport, CleanupRow
from sharder.cli.tables import shortfalls
from sharder.cli.words import the_one
from sharder.core.api.lease import Lease
from sharder.core.api.meta import Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import ApiError, ConfigError, Forbidden, NotFound, SharderError
from sharder.core.leases.state import is_held
from sharder.core.names import RING_LABEL, GroupResource, ObjectRef, RingName
from sharder.core.ring.build import roles_of
from sharder.kube.client import Client
from sharder.kube.discovery import Served, served
from sharder.kube.objects import KubeObjects
from sharder.kube.typed_stores import MUTATING, KubeWebhookConfigurations, leases
from sharder.kube.typed_stores import rings as controller_rings
from sharder.ports import Objects, Readable, WebhookConfigurations
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock, SystemClock

_NAMED: Final = 3
"""Limit on the failures that the error names; the report has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """The parts of the cluster that a clean-up reads and writes."""

    rings: Readable[ControllerRing]
    leases: Readable[Lease]
    configurations: WebhookConfigurations
    objects: Objects
    served: Callable[[], Awaitable[Served]]
    clock: Clock
    rng: Rng


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The arguments of the command."""

    ring: RingName
    resources: tuple[str, ...]
    """As typed; empty for all resources that can be listed and patched."""
    dry_run: bool


def task_of(name: str, resources: Sequence[str], *, dry_run: bool) -> Task:
    """Return the arguments; resources have the form of kubectl.

    Raises:
        ConfigError: the name is not valid for a ring.
    """
    return Task(ring=ring_named(name), resources=tuple(resources), dry_run=dry_run)


def run(kubeconfig: str | None, context: str | None, task: Task) -> CleanupReport:
    """Clean up a cluster, with progress on stderr."""

    async def work(client: Client) -> CleanupReport:
        access = ClusterAccess(
            rings=controller_rings(client),
            leases=leases(client),
            configurations=KubeWebhookConfigurations(client, MUTATING),
            objects=KubeObjects(client),
            served=lambda: served(client),
            clock=SystemClock(),
            rng=random.Random(),  # noqa: S311 - jitter, no secret
        )
        with progress(access.clock) as shown:
            return await clean_up(access, task, shown)

    return connection.run(kubeconfig, context, work)


async def clean_up(access: ClusterAccess, task: Task, shown: Progress) -> CleanupReport:
    """Clean one resource after the other; failures are in the report.

    Raises:
        ConfigError: the ring exists, and has one of the resources to clean.
        ApiError: the resources cannot be discovered.
    """
    ring = await _find(access, task.ring)
    _require_deletion(task, ring)
    targets, warnings = await _targets(access, task)
    for target in targets if task.resources else ():
        _require_absence(ring, target.id)
    if ring is None:
        warnings += await _left_over(access, task.ring)
    for warning in warnings:
        shown.warn(warning)
    rows = [await _clean(access, task, resource, shown) for resource in targets]
    return CleanupReport(
        ring=task.ring,
        dry_run=task.dry_run,
        looked_at=len(rows),
        resources=tuple(row for row in rows if row.found or row.problem),
        warnings=tuple(warnings),
    )


def require_complete(report: CleanupReport) -> None:
    """Raise if anything failed.

    Raises:
        SharderError: the message names the first failures.
    """
    failed = [f"{what} ({why})" for what, why in shortfalls(report)]
    if failed:
        more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
        raise SharderError(
            f"cleanup is incomplete: {', '.join(failed[:_NAMED])}{more}; fix these and rerun"
        )


async def _find(access: ClusterAccess, name: RingName) -> ControllerRing | None:
    try:
        return await access.rings.get(ObjectRef("", name))
    except NotFound:  # the ring does not exist, or its CRD does not
        return None


def _require_deletion(task: Task, ring: ControllerRing | None) -> None:
    if ring is not None and not task.resources:
        raise ConfigError(
            f"ControllerRing {ring.name} exists, so the sharder would assign its objects again: "
            "delete the ring, or clean only a resource that has left it, with --resource"
        )


def _require_absence(ring: ControllerRing | None, resource: GroupResource) -> None:
    if ring is not None and resource in roles_of(ring):
        raise ConfigError(
            f"{resource} is part of ControllerRing {ring.name}, which would assign its objects "
            "again: remove it from the ring first"
        )


async def _targets(access: ClusterAccess, task: Task) -> tuple[list[Resource], list[str]]:
    """Return the resources to clean, and warnings."""
    if task.resources:
        named = [await _resource_of(access, word) for word in task.resources]
        return list(dict.fromkeys(named)), []
    discovered = await access.served()
    silent = [f"API group {g} is unavailable; rerun when it is back" for g in discovered.silent]
    return list(discovered.resources), silent


async def _resource_of(access: ClusterAccess, word: str) -> Resource:
    name, _, group = word.partition(".")
    try:
        return await access.objects.find(GroupResource(group, name))
    except NotFound:
        resource = the_one(word, (await access.served()).resources)
        if resource is None:
            raise
        return resource


async def _left_over(access: ClusterAccess, ring: RingName) -> list[str]:
    """Return warnings about other leftovers of a deleted ring."""
    warnings: list[str] = []
    labels = f"{RING_LABEL}={ring}"
    try:
        warnings += [
            f"MutatingWebhookConfiguration {configuration.metadata.name} still exists; a running "
            "sharder deletes it, otherwise delete it yourself"
            async for configuration in access.configurations.stream(labels)
        ]
        held = [str(s.metadata.ref) async for s in access.leases.stream(labels) if is_held(s)]
    except ApiError as error:
        return [*warnings, f"cannot check for other leftovers of the ring: {error}"]
    if held:
        named = ", ".join(held[:_NAMED]) + (", …" if len(held) > _NAMED else "")
        warnings.append(f"{len(held)} shards still hold Leases of the ring: {named}")
    return warnings


async def _clean(
    access: ClusterAccess, task: Task, resource: Resource, shown: Progress
) -> CleanupRow:
    async def check() -> None:
        _require_absence(await _find(access, task.ring), resource.id)

    shown.show(line_of(resource.id, Tally()))
    sweep = Sweep(
        objects=access.objects,
        resource=resource,
        ring=task.ring,
        dry_run=task.dry_run,
        check=check,
        on_progress=lambda tally: shown.show(line_of(resource.id, tally)),
        clock=access.clock,
        rng=access.rng,
    )
    tally = await sweep.run()
    if tally.found:
        shown.finish(line_of(resource.id, tally))
    return _row(resource.id, tally)


def line_of(resource: GroupResource, tally: Tally) -> str:
    """Return the progress of a resource as a line for people."""
    failed = f", {len(tally.failures)} failed" if tally.failures else ""
    problem = f", stopped: {tally.problem}" if tally.problem else ""
    return f"{resource}: {tally.found} found, {tally.cleaned} cleaned{failed}{problem}"


def _row(resource: GroupResource, tally: Tally) -> CleanupRow:
    return CleanupRow(
        resource=str(resource),
        found=tally.found,
        cleaned=tally.cleaned,
        skipped=tally.skipped,
        failed=len(tally.failures),
        objects=_names(tally.objects),
        failures=tuple(
            CleanupFailure(object=str(ref), why=str(error), forbidden=isinstance(error, Forbidden))
            for ref, error in tally.failures.items()
        ),
        problem=None if tally.problem is None else str(tally.problem),
        forbidden=isinstance(tally.problem, Forbidden),
    )


def _names(refs: Iterable[ObjectRef]) -> tuple[str, ...]:
    return tuple(map(str, refs))

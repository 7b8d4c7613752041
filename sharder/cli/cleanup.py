"""`sharder cleanup`: remove the labels and annotations that a deleted ring has left."""

from collections.abc import Sequence
from typing import Final

from sharder.cli.cleanup_sweep import Sweep
from sharder.cli.cluster import Cluster
from sharder.cli.lookup import ring_named
from sharder.cli.reports import CleanupReport
from sharder.cli.tables import shortfalls
from sharder.cli.words import resource_named
from sharder.core.api.meta import Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import ApiError, ConfigError, NotFound, SharderError
from sharder.core.leases.state import is_held
from sharder.core.names import RING_LABEL, GroupResource, ObjectRef, RingName
from sharder.core.ring.build import roles_of

_NAMED: Final = 3
"""Limit on the failures that the error names; the report has all."""


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

    async def check(resource: GroupResource) -> None:
        _require_absence(await _find(cluster, name), resource)

    rows = [
        await Sweep(
            cluster=cluster, resource=target, ring=name, dry_run=dry_run, check=check
        ).run()
        for target in targets
    ]
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
    failed = [f"{what} ({why})" for what, why in shortfalls(report)]
    if failed:
        more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
        raise SharderError(
            f"cleanup is incomplete: {', '.join(failed[:_NAMED])}{more}; fix these and rerun"
        )


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


async def _targets(cluster: Cluster, words: Sequence[str]) -> tuple[list[Resource], list[str]]:
    """Return the resources to clean, and warnings."""
    if words:
        return list(dict.fromkeys([await _resource_of(cluster, word) for word in words])), []
    discovered = await cluster.served()
    silent = [f"API group {g} is unavailable; rerun when it is back" for g in discovered.silent]
    return list(discovered.resources), silent


async def _resource_of(cluster: Cluster, word: str) -> Resource:
    name, _, group = word.partition(".")
    try:
        return await cluster.objects.find(GroupResource(group, name))
    except NotFound:
        resource = resource_named(word, (await cluster.served()).resources)
        if resource is None:
            raise
        return resource


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
        named = ", ".join(held[:_NAMED]) + (", …" if len(held) > _NAMED else "")
        warnings.append(f"{len(held)} shards still hold Leases of the ring: {named}")
    return warnings

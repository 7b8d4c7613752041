"""Lists and results as tables for people; their form can change in any release."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from sharder.cli.output import Table, table, write
from sharder.cli.reports import (
    CertificateRow,
    CertificatesReport,
    CleanupReport,
    FieldValue,
    OperationReport,
    OperationsReport,
    RingRow,
    RingsReport,
    ShardRow,
    ShardsReport,
    VersionReport,
)
from sharder.core.names import API_GROUP
from sharder.core.plurals import counted

_SHOWN_OBJECTS: Final = 50
"""Limit on the objects in a table; the line below it counts the others."""
_RING = f"controllerring.{API_GROUP}"
_LEASE = "lease.coordination.k8s.io"
PAUSED = 'is paused; run "sharder resume" to continue'


def rings(report: RingsReport, *, wide: bool = False) -> None:
    """Print the rings."""
    if not report.rings:
        write("no rings found")
        return
    write(ring_table(report, wide=wide), *ring_notes(report))


def ring_table(report: RingsReport, *, wide: bool) -> Table:
    """Return a row for each ring."""
    columns = ("NAME", "READY", "SHARDS", "OBJECTS", "UNOWNED", "DRAINING")
    more = ("UNASSIGNED", "STRATEGY", "RESOURCES")
    return table((*columns, *more) if wide else columns, (_ring(r, wide) for r in report.rings))


def ring_notes(report: RingsReport) -> list[str]:
    """Return a line for each pause and problem."""
    paused = [f"{ring.name} {PAUSED}" for ring in report.rings if ring.paused]
    return paused + [f"{ring.name}: {ring.problem}" for ring in report.rings if ring.problem]


def _ring(ring: RingRow, wide: bool) -> tuple[object, ...]:  # noqa: FBT001 - private
    shards = f"{ring.available_shards}/{ring.shards}"
    row = (ring.name, ring.ready, shards, ring.objects, ring.unowned, ring.draining)
    more = (ring.unassigned, ring.strategy, ",".join(ring.resources))
    return (*row, *more) if wide else row


def ring_names(report: RingsReport) -> None:
    """Print the rings as arguments of kubectl."""
    write(*(f"{_RING}/{ring.name}" for ring in report.rings))


def shards(report: ShardsReport, *, wide: bool = False) -> None:
    """Print the shards of a ring."""
    if report.shards:
        write(shard_table(report, wide=wide))
    else:
        write(f"{report.ring} has no shards")
    counts = (
        counted(report.objects, "object"),
        f"{report.unassigned} unassigned",
        f"{report.unowned} unowned",
        f"{report.draining} draining",
    )
    write(", ".join(counts), *shard_notes(report))


def shard_table(report: ShardsReport, *, wide: bool) -> Table:
    """Return a row for each shard."""
    columns = ("NAME", "STATE", "OBJECTS", "DRAINING", "RENEWED")
    more = ("AVAILABLE", "NAMESPACE", "ZONE", "POOL", "WEIGHT", "CAPACITY")
    return table((*columns, *more) if wide else columns, (_shard(s, wide) for s in report.shards))


def shard_notes(report: ShardsReport) -> list[str]:
    """Return a line for each pause, problem and mistake."""
    return [
        *[f"{report.ring} {PAUSED}"] * report.paused,
        *[f"{report.ring}: {report.problem}"] * (report.problem is not None),
        *(f"{shard.name}: {shard.problem}" for shard in report.shards if shard.problem),
        *(f"{shard.name}: {text}" for shard in report.shards for text in shard.mistakes),
    ]


def _shard(shard: ShardRow, wide: bool) -> tuple[object, ...]:  # noqa: FBT001 - private
    row = (shard.name, _state(shard), shard.objects, shard.draining, _age(shard))
    more = (
        "yes" if shard.available else "no",
        shard.namespace,
        "/".join(filter(None, (shard.region, shard.zone))) or None,
        shard.pool or None,
        f"{shard.weight:g}",
        ",".join(f"{name}={amount}" for name, amount in shard.capacity.items()) or None,
    )
    return (*row, *more) if wide else row


def _state(shard: ShardRow) -> str:
    """Return the state and its restrictions, in the form of `kubectl get nodes`."""
    restricted = "evacuating" if shard.evacuating else "cordoned" if shard.cordoned else ""
    ignored = "ignored" if shard.problem else ""
    return ",".join(filter(None, (shard.state, restricted, ignored)))


def shard_names(report: ShardsReport) -> None:
    """Print the shards' Leases as arguments of kubectl."""
    write(*(f"{_LEASE}/{shard.name}" for shard in report.shards))


def cleanup(report: CleanupReport) -> None:
    """Print the numbers and failures of a clean-up, and in a dry run the names of the objects."""
    if not report.resources:
        write(f"nothing left of {report.ring} in {report.looked_at} resources")
        return
    found = [f"{row.resource} {name}" for row in report.resources for name in row.objects]
    write(*found[:_SHOWN_OBJECTS])
    if len(found) > _SHOWN_OBJECTS:
        write(f"and {len(found) - _SHOWN_OBJECTS} more: see -o json")
    rows = [(r.resource, r.found, r.cleaned, r.skipped, r.failed) for r in report.resources]
    if with_finds := [row for row in rows if row[1]]:
        write(table(("RESOURCE", "FOUND", "CLEANED", "SKIPPED", "FAILED"), with_finds))
    failures = [f"{what}: {why}" for what, why in shortfalls(report)]
    write(*failures[:_SHOWN_OBJECTS])
    if len(failures) > _SHOWN_OBJECTS:
        write(f"and {len(failures) - _SHOWN_OBJECTS} more failed: see -o json")


def operation(report: OperationReport) -> None:
    """Print the result of an operation, and in a dry run the changes that it would write."""
    write(report.result)
    if report.dry_run:
        write(
            *(
                f"would write to {report.object}: {change.field} {change.key}: "
                f"{_value(change.before)}, then {_value(change.after)}"
                for change in report.changes
            )
        )


def operations(report: OperationsReport) -> None:
    """Print the results of an operation on several names."""
    for item in report.items:
        operation(item)


def certificates(report: CertificatesReport, *, wide: bool = False) -> None:
    """Print the certificates, and the phase of a replacement."""
    columns = ("ROLE", "SUBJECT", "NOT AFTER", "DAYS LEFT")
    more = ("NOT BEFORE", "SERIAL", "NAMES", "SHA-256")
    rows = (_certificate(each, wide) for each in report.certificates)
    if report.certificates:
        write(table((*columns, *more) if wide else columns, rows))
    maker = "not issued by sharder" if report.foreign else None
    texts = (maker, report.problem, report.phase)
    write(*(f"{report.secret}: {text}" for text in texts if text))
    if report.requested:
        write(f"requested: {report.requested}")


def _certificate(row: CertificateRow, wide: bool) -> tuple[object, ...]:  # noqa: FBT001 - private
    cells = (row.role, row.subject, row.not_after, row.days_left)
    more = (row.not_before, row.serial, ",".join(row.names) or None, row.fingerprint)
    return (*cells, *more) if wide else cells


def versions(report: VersionReport) -> None:
    """Print the versions, as kubectl does."""
    write(f"Client Version: {report.client_version}")
    if report.server_version is not None:
        sharder = ", ".join(report.sharder_versions) or f"unknown: {report.problem}"
        write(f"Sharder Version: {sharder}", f"Server Version: {report.server_version}")


def _value(value: FieldValue) -> str:
    return "nothing" if value is None else msgspec.json.encode(value).decode()


def _age(shard: ShardRow) -> str:
    """Return the time since the last renewal; at least 0, even if the shard's clock is ahead."""
    ago = shard.renewed_seconds_ago
    return "never" if ago is None else f"{max(0.0, ago):.0f}s"


class Shortfall(NamedTuple):
    """A part of a clean-up that failed, and why."""

    what: str
    why: str


def shortfalls(report: CleanupReport) -> list[Shortfall]:
    """Return the failures of a clean-up; failures by one missing right are merged."""
    unread = [
        (Shortfall(row.resource, row.problem), row.forbidden)
        for row in report.resources
        if row.problem is not None
    ]
    unwritten = [
        (Shortfall(f"{row.resource} {failure.object}", failure.why), failure.forbidden)
        for row in report.resources
        for failure in row.failures
    ]
    return [
        *_missing("list", "resource", [each for each, right in unread if right]),
        *_missing("write", "object", [each for each, right in unwritten if right]),
        *(each for each, right in [*unread, *unwritten] if not right),
    ]


def _missing(verb: str, noun: str, forbidden: Sequence[Shortfall]) -> Iterator[Shortfall]:
    """Yield one shortfall for all that lack a right; `noun` is in the singular."""
    if len(forbidden) == 1:
        yield forbidden[0]
    elif forbidden:
        first = forbidden[0]
        yield Shortfall(
            f"no right to {verb} {len(forbidden)} {noun}s, such as {first.what}", first.why
        )

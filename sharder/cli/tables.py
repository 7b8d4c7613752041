"""Lists and results as tables for people; their form can change in any release."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from sharder.cli.output import table, write
from sharder.cli.reports import (
    CertificatesReport,
    CleanupReport,
    FieldValue,
    ObjectsReport,
    OperationReport,
    OperationsReport,
    RingRow,
    RingsReport,
    ShardRow,
    ShardsReport,
)
from sharder.cli.words import named_by
from sharder.core.api.lease import parse_time
from sharder.core.api.since import age, short
from sharder.core.plurals import counted
from sharder.core.preview.observe import beside

Row: TypeAlias = Mapping[str, object]
"""Cells by column, those of a narrow table first."""

_SHOWN_OBJECTS: Final = 50
"""Limit on the objects in a table; the line below it counts the others."""
PAUSED = 'is paused; run "sharder resume" to continue'


def rings(report: RingsReport, *, form: str = "table") -> None:
    """Print the rings, with a line for each pause and problem."""
    if not report.rings:
        write("no rings found")
        return
    write(_table([_ring(ring) for ring in report.rings], 6, form))
    write(*(f"{ring.name} {PAUSED}" for ring in report.rings if ring.paused))
    write(*(f"{ring.name}: {ring.problem}" for ring in report.rings if ring.problem))


def _ring(ring: RingRow) -> Row:
    objects, unowned = ring.objects, ring.unowned
    return {
        "NAME": ring.name,
        "READY": ring.ready,
        "SHARDS": f"{ring.available_shards}/{ring.shards}",
        "OBJECTS": None if objects is None else beside(objects, ring.children),
        "UNOWNED": None if unowned is None else beside(unowned, ring.unowned_children),
        "DRAINING": ring.draining,
        "UNASSIGNED": ring.unassigned,
        "STRATEGY": ring.strategy,
        "RESOURCES": ",".join(ring.resources),
    }


def shards(report: ShardsReport, *, form: str = "table") -> None:
    """Print the shards of a ring, with a line for each pause, problem and mistake."""
    rows = [_shard(shard) for shard in report.shards]
    write(_table(rows, 5, form) if rows else f"{report.ring} has no shards")
    unowned = beside(report.unowned, report.unowned_children)
    write(
        f"{beside(counted(report.objects, 'object'), report.children)}, {report.unassigned} "
        f"unassigned, {unowned} unowned, {report.draining} draining",
        *[f"{report.ring} {PAUSED}"] * report.paused,
        *[f"{report.ring}: {report.problem}"] * (report.problem is not None),
        *(f"{shard.name}: {shard.problem}" for shard in report.shards if shard.problem),
        *(f"{shard.name}: {text}" for shard in report.shards for text in shard.mistakes),
    )


def _shard(shard: ShardRow) -> Row:
    ago = shard.renewed_seconds_ago
    restricted = ",evacuating" if shard.evacuating else ",cordoned" if shard.cordoned else ""
    capacity = (f"{name}={amount}" for name, amount in shard.capacity.items())
    return {
        "NAME": shard.name,
        "STATE": f"{shard.state}{restricted}",
        "OBJECTS": beside(shard.objects, shard.children),
        "DRAINING": shard.draining,
        "RENEWED": None if ago is None else short(ago),
        "AVAILABLE": "yes" if shard.available else "no",
        "NAMESPACE": shard.namespace,
        "ZONE": "/".join(filter(None, (shard.region, shard.zone))) or None,
        "POOL": shard.pool or None,
        "WEIGHT": f"{shard.weight:g}",
        "CAPACITY": ",".join(capacity) or None,
    }


def _table(rows: Sequence[Row], narrow: int, form: str) -> str:
    """Return a table of all columns if it is wide, else of so many."""
    shown = None if form == "wide" else narrow
    cells = [[*row.values()][:shown] for row in rows]
    return table([*rows[0]][:shown], cells)


def objects(report: ObjectsReport) -> None:
    """Print objects with their age in a state."""
    if not report.objects:
        write(f"no such objects in {report.ring}")
        return
    now = parse_time(report.time)
    rows = (
        (named_by(each.object), each.shard, each.state, now and age(each.begin, now))
        for each in report.objects
    )
    write(table(("OBJECT", "SHARD", "STATE", "FOR"), rows))


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


def certificates(report: CertificatesReport) -> None:
    """Print the certificates, and the phase of a replacement."""
    rows = [(c.role, c.subject, c.not_after, c.days_left) for c in report.certificates]
    if rows:
        write(table(("ROLE", "SUBJECT", "NOT AFTER", "DAYS LEFT"), rows))
    maker = "not issued by sharder" if report.foreign else None
    texts = (maker, report.problem, report.phase)
    write(*(f"{report.secret}: {text}" for text in texts if text))
    if report.requested:
        write(f"requested: {report.requested}")


def _value(value: FieldValue) -> str:
    return "nothing" if value is None else msgspec.json.encode(value).decode()


def shortfalls(report: CleanupReport) -> list[tuple[str, str]]:
    """Return what a clean-up did not do, and why."""
    unread = [(row.resource, row.problem) for row in report.resources if row.problem is not None]
    unwritten = [
        (f"{row.resource} {failure.object}", failure.why)
        for row in report.resources
        for failure in row.failures
    ]
    return [*unread, *unwritten]

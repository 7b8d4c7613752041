"""Lists and results as tables for people; their form can change in any release."""

from collections.abc import Sequence
from itertools import islice
from operator import attrgetter
from typing import Final, TypeVar

import msgspec

from sharder.cli.output import Columns, table, write
from sharder.cli.reports import (
    CertificateRow,
    CertificatesReport,
    CleanupReport,
    CleanupRow,
    FieldValue,
    ObjectRow,
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

Row = TypeVar("Row")

_SHOWN_OBJECTS: Final = 50
"""Limit on the objects in a table; the line below it counts the others."""
PAUSED = 'is paused; run "sharder resume" to continue'

_RINGS: Final[Columns[RingRow]] = {
    "NAME": attrgetter("name"),
    "READY": attrgetter("ready"),
    "SHARDS": lambda it: f"{it.available_shards}/{it.shards}",
    "OBJECTS": lambda it: None if it.objects is None else beside(it.objects, it.children),
    "UNOWNED": lambda it: None if it.unowned is None else beside(it.unowned, it.unowned_children),
    "DRAINING": attrgetter("draining"),
    "UNASSIGNED": attrgetter("unassigned"),
    "STRATEGY": attrgetter("strategy"),
    "RESOURCES": lambda it: ",".join(it.resources),
}
_SHARDS: Final[Columns[ShardRow]] = {
    "NAME": attrgetter("name"),
    "STATE": lambda it: (
        f"{it.state}{',evacuating' if it.evacuating else ',cordoned' if it.cordoned else ''}"
    ),
    "OBJECTS": lambda it: beside(it.objects, it.children),
    "DRAINING": attrgetter("draining"),
    "RENEWED": lambda it: None if (ago := it.renewed_seconds_ago) is None else short(ago),
    "AVAILABLE": lambda it: "yes" if it.available else "no",
    "NAMESPACE": attrgetter("namespace"),
    "ZONE": lambda it: "/".join(filter(None, (it.region, it.zone))) or None,
    "POOL": lambda it: it.pool or None,
    "WEIGHT": lambda it: f"{it.weight:g}",
    "CAPACITY": lambda it: ",".join(f"{k}={v}" for k, v in it.capacity.items()) or None,
}
_CLEANUP: Final[Columns[CleanupRow]] = {
    title.upper(): attrgetter(title)
    for title in ("resource", "found", "cleaned", "skipped", "failed")
}
_CERTIFICATES: Final[Columns[CertificateRow]] = {
    "ROLE": attrgetter("role"),
    "SUBJECT": attrgetter("subject"),
    "NOT AFTER": attrgetter("not_after"),
    "DAYS LEFT": attrgetter("days_left"),
}


def rings(report: RingsReport, *, form: str = "table") -> None:
    """Print the rings, with a line for each pause and problem."""
    write(
        _list(report.rings, _RINGS, 6, form) or "no rings found",
        *(f"{ring.name} {PAUSED}" for ring in report.rings if ring.paused),
        *(f"{ring.name}: {ring.problem}" for ring in report.rings if ring.problem),
    )


def shards(report: ShardsReport, *, form: str = "table") -> None:
    """Print the shards of a ring, with a line for each pause, problem and mistake."""
    write(
        _list(report.shards, _SHARDS, 5, form) or f"{report.ring} has no shards",
        f"{beside(counted(report.objects, 'object'), report.children)}, {report.unassigned} "
        f"unassigned, {beside(report.unowned, report.unowned_children)} unowned, "
        f"{report.draining} draining",
        *[f"{report.ring} {PAUSED}"] * report.paused,
        *[f"{report.ring}: {report.problem}"] * (report.problem is not None),
        *(f"{shard.name}: {shard.problem}" for shard in report.shards if shard.problem),
        *(f"{shard.name}: {text}" for shard in report.shards for text in shard.mistakes),
    )


def _list(rows: Sequence[Row], columns: Columns[Row], narrow: int, form: str) -> str:
    """Return a table of all columns if it is wide, else of so many; empty without rows."""
    shown = islice(columns.items(), None if form == "wide" else narrow)
    return table(rows, dict(shown)) if rows else ""


def objects(report: ObjectsReport) -> None:
    """Print objects with their age in a state."""
    now = parse_time(report.time)
    columns: Columns[ObjectRow] = {
        "OBJECT": lambda it: named_by(it.object),
        "SHARD": attrgetter("shard"),
        "STATE": attrgetter("state"),
        "FOR": lambda it: now and age(it.begin, now),
    }
    empty = f"no such objects in {report.ring}"
    write(table(report.objects, columns) if report.objects else empty)


def cleanup(report: CleanupReport) -> None:
    """Print the numbers and failures of a clean-up, and in a dry run the names of the objects."""
    if not report.resources:
        write(f"nothing left of {report.ring} in {report.looked_at} resources")
    _few([f"{row.resource} {name}" for row in report.resources for name in row.objects], "")
    if with_finds := [row for row in report.resources if row.found]:
        write(table(with_finds, _CLEANUP))
    _few([f"{what}: {why}" for what, why in shortfalls(report)], " failed")


def _few(lines: Sequence[str], what: str) -> None:
    write(*lines[:_SHOWN_OBJECTS])
    if len(lines) > _SHOWN_OBJECTS:
        write(f"and {len(lines) - _SHOWN_OBJECTS} more{what}: see -o json")


def operation(report: OperationReport) -> None:
    """Print the result of an operation, and in a dry run the changes that it would write."""
    write(report.result)
    for change in report.changes if report.dry_run else ():
        write(
            f"would write to {report.object}: {change.field} {change.key}: "
            f"{_value(change.before)}, then {_value(change.after)}"
        )


def operations(report: OperationsReport) -> None:
    """Print the results of an operation on several names."""
    for item in report.items:
        operation(item)


def certificates(report: CertificatesReport) -> None:
    """Print the certificates, and the phase of a replacement."""
    if report.certificates:
        write(table(report.certificates, _CERTIFICATES))
    maker = "not issued by sharder" if report.foreign else None
    texts = (maker, report.problem, report.phase)
    write(*(f"{report.secret}: {text}" for text in texts if text))
    if report.requested:
        write(f"requested: {report.requested}")


def _value(value: FieldValue) -> str:
    return "nothing" if value is None else msgspec.json.encode(value).decode()


def shortfalls(report: CleanupReport) -> list[tuple[str, str]]:
    """Return what a clean-up did not do, and why."""
    rows = report.resources
    unread = [(row.resource, row.problem) for row in rows if row.problem is not None]
    failures = [(row.resource, each) for row in rows for each in row.failures]
    return [*unread, *((f"{resource} {each.object}", each.why) for resource, each in failures)]

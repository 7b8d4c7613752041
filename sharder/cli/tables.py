"""Lists as tables for people; their form can change in any release."""

from collections.abc import Sequence
from itertools import islice
from operator import attrgetter
from typing import Final, TypeVar

from sharder.cli.output import Columns, table, write
from sharder.cli.reports import (
    ObjectRow,
    ObjectsReport,
    RingRow,
    RingsReport,
    ShardRow,
    ShardsReport,
)
from sharder.cli.words import named_by
from sharder.core.api.lease import parse_time
from sharder.core.diagnosis.installation import CertificateRow, CertificatesReport
from sharder.core.plan.observe import age, beside, short
from sharder.core.texts import counted

Row = TypeVar("Row")

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
_CERTIFICATES: Final[Columns[CertificateRow]] = {
    "ROLE": attrgetter("role"),
    "SUBJECT": attrgetter("subject"),
    "EXPIRES": attrgetter("not_after"),
    "DAYS": attrgetter("days_left"),
    "FINGERPRINT": lambda it: it.fingerprint[:23],
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
        "FOR": lambda it: now and age(it.since, it.bound, now),
    }
    empty = f"no such objects in {report.ring}"
    write(table(report.objects, columns) if report.objects else empty)


def certificates(report: CertificatesReport) -> None:
    """Print the certificates, and what is to be said of them."""
    if report.certificates:
        write(table(report.certificates, _CERTIFICATES))
    texts = ("not issued by sharder" if report.foreign else None, report.problem)
    write(*(f"{report.secret}: {text}" for text in texts if text))
    if report.requested:
        write(f"requested: {report.requested}")

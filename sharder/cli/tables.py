"""Reports as tables for people, which can change at any time."""

from collections import Counter
from itertools import islice

import msgspec

from sharder.cli.cleanup import shortfalls
from sharder.cli.output import table, write
from sharder.cli.reports import (
    CertificatesReport,
    CleanupReport,
    Explanation,
    FieldValue,
    OperationReport,
    PlacementView,
    RingsReport,
    ShardRow,
    ShardsReport,
    ShardView,
)
from sharder.core.leases.shard import OBJECTS
from sharder.core.preview.balance import BalanceReport
from sharder.core.preview.plan import Action
from sharder.core.preview.report import PlanReport, ShardLoad
from sharder.core.rebalance.messages import number

_SHOWN_MOVES = 50
_SHOWN_OBJECTS = 50
_SHOWN_REASONS = 5
_SHOWN_MEASURES = 10
_PAUSED = 'is paused; run "sharder resume" to continue'


def rings(report: RingsReport) -> None:
    """Print the rings."""
    if not report.rings:
        write("no rings found")
        return
    columns = (
        *("RING", "READY", "STRATEGY", "SHARDS", "AVAILABLE"),
        *("OBJECTS", "UNASSIGNED", "UNOWNED", "DRAINING", "RESOURCES"),
    )
    rows = (
        (
            ring.name,
            ring.ready,
            ring.strategy,
            ring.shards,
            ring.available_shards,
            ring.objects,
            ring.unassigned,
            ring.unowned,
            ring.draining,
            ", ".join(ring.resources),
        )
        for ring in report.rings
    )
    write(table(columns, rows), *(f"{it.name} {_PAUSED}" for it in report.rings if it.paused))
    write(*(f"{ring.name}: {ring.problem}" for ring in report.rings if ring.problem))


def shards(report: ShardsReport) -> None:
    """Print the shards of a ring."""
    columns = (
        *("SHARD", "STATE", "AVAILABLE", "OBJECTS", "DRAINING", "RENEWED", "NAMESPACE"),
        *("ZONE", "POOL", "WEIGHT", "CAPACITY", "CORDONED"),
    )
    rows = (
        (
            shard.name,
            shard.state,
            "yes" if shard.available else "no",
            shard.objects,
            shard.draining,
            _age(shard),
            shard.namespace,
            "/".join(filter(None, (shard.region, shard.zone))) or None,
            shard.pool or None,
            f"{shard.weight:g}",
            ",".join(f"{name}={amount}" for name, amount in shard.capacity.items()) or None,
            "evacuating" if shard.evacuating else "yes" if shard.cordoned else "no",
        )
        for shard in report.shards
    )
    write(
        table(columns, rows),
        f"{report.objects} objects, {report.unassigned} unassigned, {report.unowned} unowned, "
        f"{report.draining} draining",
        *[f"{report.ring} {_PAUSED}"] * report.paused,
        *[f"{report.ring}: {report.problem}"] * (report.problem is not None),
        *(f"{shard.name}: {shard.problem}" for shard in report.shards if shard.problem),
        *(f"{shard.name}: {text}" for shard in report.shards for text in shard.mistakes),
    )


def explanation(report: Explanation) -> None:
    """Print why an object is where it is."""
    owner = report.owner and f"{report.owner} ({report.owner_state or 'has no Lease'})"
    rows = {
        "Object": report.object,
        "Controlled by": report.controller,
        "Key": report.key,
        "Owner": owner,
        "Wanted": report.wanted,
        "Draining": "yes" if report.draining else "no",
        "Next": report.action if report.to == report.owner else f"{report.action} to {report.to}",
        "Why": report.why,
        "Rebalance": report.rebalance,
        "Movement": report.movement,
        "Rollout": report.rollout,
        "Evacuation": report.evacuation,
        "Strategy": report.strategy,
    }
    placement = report.placement
    rows |= {} if placement is None else _wishes(placement)
    write(table((), ((name, value) for name, value in rows.items() if value is not None)))
    write(*report.mistakes)
    if placement is not None:
        shards = (
            (s.name, s.state, _verdict(s, placement), s.rejected or s.remark)
            for s in placement.shards
        )
        write("", table(("SHARD", "STATE", "ELIGIBLE", "REASON"), shards))


def _wishes(placement: PlacementView) -> dict[str, str | None]:
    return {
        "Pinned to": placement.pin,
        "Region": placement.region,
        "Zone": placement.zone,
        "Pool": placement.pool,
        "Group": ", ".join(placement.group) or None,
    }


def _verdict(shard: ShardView, placement: PlacementView) -> str:
    if shard.rejected is not None:
        return "no"
    return "yes, the best" if shard.name == placement.chosen else "yes"


def plan(report: PlanReport) -> None:
    """Print the shards before and after, the moves, and why some objects stay unowned."""
    before = Counter(assignment.origin for assignment in report.assignments)
    shards = (
        (s.name, s.state, before[s.name], s.objects, *_load_and_capacity(s)) for s in report.shards
    )
    columns = ("SHARD", "STATE", "OBJECTS", "AFTER", "LOAD", "CAPACITY")
    write(table(columns, shards), "")
    moving = [a for a in report.assignments if a.action not in {Action.KEEP, Action.NONE}]
    moves = ((a.object, a.action, a.origin, a.to) for a in islice(moving, _SHOWN_MOVES))
    if moving:
        write(table(("OBJECT", "ACTION", "FROM", "TO"), moves))
    if len(moving) > _SHOWN_MOVES:
        write(f"and {len(moving) - _SHOWN_MOVES} more: see -o json")
    reasons = Counter(report.reasons.values()).most_common(_SHOWN_REASONS)
    write(*(f"{many} unowned: {reason}" for reason, many in reasons))
    write(*(f"would be refused: {refusal}" for refusal in report.refusals))
    write(*[f"{report.ring}: {report.problem}"] * (report.problem is not None))
    if report.rebalance is not None:
        write(_balance(report.rebalance))
    summary = report.summary
    write(
        *[f"{report.ring} {_PAUSED}; --resume previews the moves"] * report.paused,
        f"{report.strategy}: {summary.objects} objects, {summary.moves} moves, "
        f"{len(report.unassigned)} unassigned, {len(report.unowned)} unowned; imbalance "
        f"{_ratio(summary.imbalance_before)}, then {_ratio(summary.imbalance_after)}",
    )


def _balance(report: BalanceReport) -> str:
    """Return the result of the rebalance, and the most loaded shards before and after."""
    worst = sorted(report.shards, key=lambda shard: (-shard.before, shard.name))
    shown = [
        f"{shard.name} {number(shard.before)}, then {number(shard.after)}"
        for shard in worst[:_SHOWN_MEASURES]
    ]
    more = len(worst) - len(shown)
    shown += [f"and {more} more"] if more else []
    refused = sum(move.refused is not None for move in report.moves)
    parts = (
        f"balance by {report.strategy}{', a dry run' if report.dry_run else ''}: {report.why}",
        _skipped(refused),
        f"{report.measure}: {'; '.join(shown)}" if shown else "",
    )
    return " | ".join(filter(None, parts))


def _skipped(refused: int) -> str:
    if not refused:
        return ""
    moves = "move is" if refused == 1 else "moves are"
    return f"{refused} {moves} skipped: earlier moves leave no room"


def cleanup(report: CleanupReport) -> None:
    """Print what a clean-up found, in a dry run by name too, and what it did."""
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
    """Print the result of an operation, and in a dry run what it would write."""
    write(report.result)
    if report.dry_run:
        write(
            *(
                f"would write to {report.object}: {change.field} {change.key}: "
                f"{_value(change.before)}, then {_value(change.after)}"
                for change in report.changes
            )
        )


def certificates(report: CertificatesReport) -> None:
    """Print the certificates, and the phase of a replacement."""
    columns = ("ROLE", "SUBJECT", "NOT BEFORE", "NOT AFTER", "DAYS LEFT", "SERIAL", "NAMES")
    rows = (
        (c.role, c.subject, c.not_before, c.not_after, c.days_left, c.serial, ", ".join(c.names))
        for c in report.certificates
    )
    write(table(columns, rows), "")
    write(*(f"{c.role}: SHA-256 {c.fingerprint}" for c in report.certificates))
    maker = "not issued by sharder" if report.foreign else None
    said = (maker, report.problem, report.phase)
    write("", *(f"{report.secret}: {text}" for text in said if text))
    if report.requested:
        write(f"requested: {report.requested}")


def _value(value: FieldValue) -> str:
    return "nothing" if value is None else msgspec.json.encode(value).decode()


def _load_and_capacity(shard: ShardLoad) -> tuple[int | None, int | None]:
    return (shard.load or {}).get(OBJECTS), (shard.capacity or {}).get(OBJECTS)


def _age(shard: ShardRow) -> str:
    return (
        "never" if shard.renewed_seconds_ago is None else f"{shard.renewed_seconds_ago:.0f}s ago"
    )


def _ratio(imbalance: float | None) -> str:
    return "-" if imbalance is None else f"{imbalance:.2f}"

"""Plans and explanations as tables for people; their form can change in any release."""

from collections import Counter
from itertools import islice
from typing import Final

from sharder.cli.output import table, write
from sharder.cli.reports import Explanation, PlacementView, ShardView
from sharder.cli.tables import PAUSED
from sharder.cli.words import named_by
from sharder.core.leases.shard import OBJECTS
from sharder.core.movement.step import Action
from sharder.core.plurals import counted
from sharder.core.preview.balance import BalanceReport
from sharder.core.preview.report import PlanReport, ShardLoad
from sharder.core.rebalance.messages import number

_SHOWN_MOVES: Final = 50
"""Limit on the moves in a table; the line below it counts the others.  The same for the rest."""
_SHOWN_REASONS: Final = 5
_SHOWN_MEASURES: Final = 10


def explanation(report: Explanation) -> None:
    """Print why an object is where it is."""
    owner = report.owner and f"{report.owner} ({report.owner_state or 'has no Lease'})"
    rows = {
        "Object": named_by(report.object),
        "Controlled by": report.controller and named_by(report.controller),
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
        "Apart": _apart(report),
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


def _apart(report: Explanation) -> str | None:
    if not report.apart:
        return None
    first = report.apart[0]
    objects = counted(len(report.apart), "object")
    where = first.owner or "no shard"
    return f"{objects} that it controls, such as {named_by(first.object)} on {where}"


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
    moves = ((named_by(a.object), a.action, a.origin, a.to) for a in islice(moving, _SHOWN_MOVES))
    if moving:
        write(table(("OBJECT", "ACTION", "FROM", "TO"), moves))
    if len(moving) > _SHOWN_MOVES:
        write(f"and {len(moving) - _SHOWN_MOVES} more: see -o json")
    reasons = Counter(report.reasons.values()).most_common(_SHOWN_REASONS)
    write(*(f"{count} unowned: {reason}" for reason, count in reasons))
    write(*(f"the API server would reject the ring: {refusal}" for refusal in report.refusals))
    write(*[f"{report.ring}: {report.problem}"] * (report.problem is not None))
    if report.rebalance is not None:
        write(_balance(report.rebalance))
    summary = report.summary
    write(
        *[f"{report.ring} {PAUSED}; --resume previews the moves"] * report.paused,
        f"{report.strategy}: {counted(summary.objects, 'object')}, "
        f"{counted(summary.moves, 'move')}, "
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


def _load_and_capacity(shard: ShardLoad) -> tuple[int | None, int | None]:
    return (shard.load or {}).get(OBJECTS), (shard.capacity or {}).get(OBJECTS)


def _ratio(imbalance: float | None) -> str:
    return "-" if imbalance is None else f"{imbalance:.2f}"

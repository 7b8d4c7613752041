"""Plans and explanations as tables for people; their form can change in any release."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from operator import attrgetter
from typing import Final

from sharder.cli.output import Columns, aligned, table, write
from sharder.cli.reports import Explanation, PlacementView, ShardView
from sharder.cli.tables import PAUSED
from sharder.cli.words import named_by
from sharder.core.api.lease import parse_time
from sharder.core.leases.shard import OBJECTS
from sharder.core.names import ShardName
from sharder.core.plan.observe import Number, beside, short
from sharder.core.plan.plan import Assignment, PlanReport, ShardLoad
from sharder.core.plan.state import Action
from sharder.core.ring.snapshot import Role
from sharder.core.texts import counted

_SHOWN_REASONS: Final = 5
"""Limits on the lines; the line below them counts the others."""


_STAYS: Final = frozenset({Action.KEEP, Action.NONE})
_MOVES: Final[Columns[Assignment]] = {
    "OBJECT": lambda it: named_by(it.object),
    "STEP": attrgetter("action"),
    "FROM": attrgetter("origin"),
    "TO": attrgetter("to"),
}


def explanation(report: Explanation, now: datetime) -> None:
    """Print why an object is where it is."""
    owner = report.owner and f"{report.owner} ({report.owner_state or 'has no Lease'})"
    rows = {
        "Object": named_by(report.object),
        "Controlled by": report.controller and named_by(report.controller),
        "Key": report.key,
        "Owner": owner,
        "Wanted": report.wanted,
        "Draining": "yes" if report.draining else "no",
        "Since": _since(report, now),
        "Next": report.action if report.to == report.owner else f"{report.action} to {report.to}",
        "Why": report.why,
        "Do": report.advice,
        "Movement": report.movement,
        "Rollout": report.rollout,
        "Evacuation": report.evacuation,
        "Strategy": report.strategy,
    }
    placement = report.placement
    if placement is not None:
        rows |= {
            "Pinned to": placement.pin,
            "Region": placement.region,
            "Zone": placement.zone,
            "Pool": placement.pool,
            "Group": ", ".join(placement.group) or None,
        }
    write(aligned([pair for pair in rows.items() if pair[1] is not None]))
    write(*report.mistakes)
    if placement is not None:
        columns: Columns[ShardView] = {
            "SHARD": attrgetter("name"),
            "STATE": attrgetter("state"),
            "ELIGIBLE": lambda it: _verdict(it, placement),
            "REASON": lambda it: it.rejected or it.remark,
        }
        write("", table(placement.shards, columns))


def _since(report: Explanation, now: datetime) -> str | None:
    begin = parse_time(report.since)
    if begin is None:
        return None
    what = "unassigned" if report.owner is None else "has its owner"
    what = "draining" if report.draining else what
    return f"{report.since}: {what} for {report.bound} {short((now - begin).total_seconds())}"


def _verdict(shard: ShardView, placement: PlacementView) -> str:
    if shard.rejected is not None:
        return "no"
    return "yes, the best" if shard.name == placement.chosen else "yes"


def plan(report: PlanReport, *, verbose: bool = False) -> None:
    """Print the shards before and after, the moves, and why some objects stay unowned."""
    before = defaultdict[ShardName | None, Number](Number)
    for each in report.assignments:
        before[each.origin].add(_role(each))
    columns: Columns[ShardLoad] = {
        "SHARD": attrgetter("name"),
        "STATE": attrgetter("state"),
        "OBJECTS": lambda it: before[it.name],
        "AFTER": lambda it: beside(it.objects, it.children),
        "CAPACITY": lambda it: (it.capacity or {}).get(OBJECTS),
    }
    write(table(report.shards, columns), "")
    moving = [each for each in report.assignments if each.action not in _STAYS]
    moving.sort(key=attrgetter("controlled"))
    if moving:
        write(table(moving, _MOVES) if verbose else _counted(moving))
    reasons = Counter(report.reasons.values()).most_common(_SHOWN_REASONS)
    write(*(f"{count} unowned: {reason}" for reason, count in reasons))
    write(*(f"the API server would reject the ring: {refusal}" for refusal in report.refusals))
    write(*[f"{report.ring}: {report.problem}"] * (report.problem is not None))
    write(*[f"{report.ring} {PAUSED}; --resume previews the moves"] * report.paused)
    write(_sentence(report))


def _role(assignment: Assignment) -> Role:
    return Role.CONTROLLED if assignment.controlled else Role.MAIN


def _counted(moving: Iterable[Assignment]) -> str:
    """Return how many objects move from each shard to each, most main objects first."""
    moves = defaultdict[tuple[ShardName | None, ShardName | None], Number](Number)
    steps = dict[tuple[ShardName | None, ShardName | None], Action]()
    for each in moving:
        moves[each.origin, each.to].add(_role(each))
        steps.setdefault((each.origin, each.to), each.action)
    most = sorted(moves, key=lambda it: (-moves[it].objects, -moves[it].children, str(it)))
    rows = [(*it, moves[it], steps[it]) for it in most]
    return aligned([("FROM", "TO", "OBJECTS", "STEP"), *rows])


def _sentence(report: PlanReport) -> str:
    summary, waits = report.summary, {a.object for a in report.assignments if a.controlled}
    unassigned = sum(each not in waits for each in report.unassigned)
    unowned = sum(each not in waits for each in report.unowned)
    about = "" if summary.exact else "about "
    return (
        f"{report.strategy}: {beside(counted(summary.objects, 'object'), summary.children)}, "
        f"{about}{beside(counted(summary.moves, 'move'), summary.moved_children)}, "
        f"{beside(unassigned, len(report.unassigned) - unassigned)} unassigned, "
        f"{beside(unowned, len(report.unowned) - unowned)} unowned; imbalance "
        f"{_ratio(summary.imbalance_before)}, then {_ratio(summary.imbalance_after)}"
    )


def _ratio(imbalance: float | None) -> str:
    return "-" if imbalance is None else f"{imbalance:.2f}"

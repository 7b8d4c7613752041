"""What a clean-up could not do; a right that is missing for many objects is named once."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sharder.cli.reports import CleanupReport


class Shortfall(NamedTuple):
    """What failed, and why."""

    what: str
    why: str


def shortfalls(report: CleanupReport) -> list[Shortfall]:
    """Return what failed: missing rights first, by verb, then the others one by one."""
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


def _missing(verb: str, things: str, found: Sequence[Shortfall]) -> Iterator[Shortfall]:
    if len(found) == 1:
        yield found[0]
    elif found:
        yield Shortfall(
            f"no right to {verb} {len(found)} {things}s, such as {found[0].what}", found[0].why
        )

"""A nemesis run as text."""

from collections import Counter
from collections.abc import Iterator, Sequence

from tests.history.absences import Times
from tests.history.judging import Verdict
from tests.history.moments import leaderless_of
from tests.history.timeline import histories
from tests.long.nemesis.play import Played

EXAMPLES = 5


def report(played: Played, verdict: Verdict, wrong: Sequence[str]) -> str:
    """Return what was played, what was done, what was found, and the verdict."""
    return "\n".join(
        [
            f"{played.setup}",
            *_doings(played, verdict),
            "",
            *_table(played, verdict),
            "",
            *_times(verdict),
            *(f"  {what}: {x}" for what, them in verdict.found().items() for x in them[:EXAMPLES]),
            *histories(played.trace, verdict),
            "",
            "VERDICT: " + ("not good" if wrong else "good"),
            *wrong,
        ]
    )


def _doings(played: Played, verdict: Verdict) -> Iterator[str]:
    kinds = Counter(fault.split(" p")[0].split(" sharder-")[0] for fault in played.faults)
    leaderless = leaderless_of(played.trace)
    yield f"faults: {len(played.faults)}: {dict(kinds)}"
    yield (
        f"requests of users: {dict(played.requests)}, failed {len(played.trace.refused)} "
        f"({len(verdict.refused)} outside outages)"
    )
    yield f"processes that ended by themselves: {dict(Counter(played.fallen))}"
    yield (
        f"acknowledged moves: {verdict.moves}; after a user had removed the label: "
        f"{verdict.strips}"
    )
    yield (
        f"no sharder led: {len(leaderless)} times, "
        f"{sum(span.end - span.begin for span in leaderless):.0f} s"
    )
    yield f"at rest {played.rest:.1f} s after the last fault"


def _table(played: Played, verdict: Verdict) -> Iterator[str]:
    yield "| judged | found |"
    yield "|---|---|"
    for what, them in verdict.found().items():
        yield f"| {what} | {len(them)} |"
    if played.setup.fence:
        yield f"| writes that the fence refused | {verdict.fenced} |"


def _times(verdict: Verdict) -> Iterator[str]:
    yield "| without a working shard | objects | p50 | p99 | longest |"
    yield "|---|---|---|---|---|"
    yield _row("while a sharder led, away from outages", verdict.calm)
    yield _row("always", verdict.all)


def _row(what: str, times: Times) -> str:
    return (
        f"| {what} | {times.count} | {times.p50:.2f} s | {times.p99:.1f} s "
        f"| {times.longest:.1f} s |"
    )

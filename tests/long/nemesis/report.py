"""A nemesis run as text."""

from collections import Counter
from collections.abc import Mapping, Sequence

from tests.long.nemesis.history import leaderless_of
from tests.long.nemesis.judging import Times, Verdict
from tests.long.nemesis.play import Played

EXAMPLES = 5


def report(played: Played, verdict: Verdict, lease_seconds: float) -> str:
    """Return what was done, what was measured, and what was wrong."""
    kinds = Counter(fault.split(" p")[0].split(" sharder-")[0] for fault in played.faults)
    lists: Mapping[str, Sequence[object]] = {
        "moved without acknowledgement": verdict.unacknowledged,
        "moved after their label was removed": verdict.stripped,
        "children written by non-owners": verdict.foreign,
        "children created twice": verdict.born_twice,
        "worked on by two": verdict.overlaps,
        "requests refused": verdict.refused,
        "left behind": verdict.left,
    }
    leaderless = leaderless_of(played.trace)
    lines = [
        f"faults: {len(played.faults)}: {dict(kinds)}",
        f"requests: {dict(played.requests)}, failed {len(played.trace.refused)} "
        f"({len(verdict.refused)} outside outages)",
        f"processes that ended by themselves: {dict(Counter(played.fallen))}",
        f"acknowledged moves: {verdict.moves}; after a user had removed the label: "
        f"{verdict.strips}",
        f"no sharder led: {len(leaderless)} times, "
        f"{sum(span.end - span.begin for span in leaderless):.0f} s",
        f"without a working shard, while one led and away from outages: {_told(verdict.calm)}",
        f"without a working shard, always: {_told(verdict.all)}",
        f"at rest {played.rest:.1f} s after the last fault",
        *(f"{what}: {len(them)}" for what, them in lists.items()),
    ]
    for what, them in lists.items():
        lines += [f"  {what}: {each}" for each in them[:EXAMPLES]]
    for overlap in verdict.overlaps:
        lines += [f"how it came that {overlap}:", *(f"  {line}" for line in overlap.timeline)]
    wrong = verdict.problems(2 * lease_seconds + 4)
    return "\n".join([*lines, "VERDICT: " + ("not good" if wrong else "good"), *wrong])


def _told(times: Times) -> str:
    return (
        f"p50 {times.p50:.2f} s, p99 {times.p99:.1f} s, longest {times.longest:.1f} s "
        f"of {times.count}"
    )

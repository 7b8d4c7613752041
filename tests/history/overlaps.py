"""Two shards at work on one object, and how that came about.

An overlap is a moment at which two shards are between the beginning and the end of their work on
one object while the processes of both run.  A process that was killed has ended its work with
the last that it logged.

A process that is paused does nothing, however long its work seems to last: its Lease runs out,
the object moves, and the other shard may begin.  When it goes on, it has to see first that it
lost the Lease: `WAKE_SECONDS` are no overlap then, for work that it had begun before the pause,
if the Lease was not its own any more when the other shard began.  What it writes in spite of
that is found among the children.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from tests.history.moments import Leases, pauses_of
from tests.history.traces import Span, Trace, Work

WAKE_SECONDS: Final = 1.0
"""The event loop has to come round, on a machine with more processes than cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Two pieces of work on one object that were done at the same time."""

    first: Work
    second: Work
    at: float
    """When both were first at work."""
    seconds: float
    """How long both were, infinite if they still are."""

    @override
    def __str__(self) -> str:
        both = f"{self.first.shard} and {self.second.shard}"
        return f"{self.first.object}: {both} at work for {self.seconds:.2f} s"


def overlaps(trace: Trace) -> Iterator[Overlap]:
    """Yield all overlaps, those of each object in the order of time."""
    pauses, leases = pauses_of(trace), Leases(trace.leases)
    for works in _by_object(trace.works).values():
        for first, second in _pairs(works):
            lost = leases.is_lost(first.shard, second.began)
            still = [
                *_still(pauses.get(first.shard, ()), first, wake=WAKE_SECONDS if lost else 0.0),
                *_still(pauses.get(second.shard, ()), second, wake=0.0),
            ]
            both = Span(begin=second.began, end=min(first.ended, second.ended))
            left = list(_without(both, still))
            if left:
                yield Overlap(
                    first=first,
                    second=second,
                    at=left[0].begin,
                    seconds=sum(span.end - span.begin for span in left),
                )


def _by_object(works: Sequence[Work]) -> Mapping[str, list[Work]]:
    found: defaultdict[str, list[Work]] = defaultdict(list)
    for work in sorted(works, key=lambda each: each.began):
        found[work.object].append(work)
    return found


def _pairs(works: Sequence[Work]) -> Iterator[tuple[Work, Work]]:
    """Yield which work of another shard had not ended when each began."""
    unended: list[Work] = []
    for work in works:
        unended = [each for each in unended if each.ended > work.began]
        for first in unended:
            if first.shard != work.shard:
                yield first, work
        unended.append(work)


def _still(pauses: Sequence[Span], work: Work, *, wake: float) -> Iterator[Span]:
    for pause in pauses:
        if work.began <= pause.begin:
            yield Span(begin=pause.begin, end=pause.end + wake)
        else:
            yield pause


def _without(span: Span, holes: Sequence[Span]) -> Iterator[Span]:
    """Yield what is left of a span; nothing is left of an empty one."""
    begin = span.begin
    for hole in sorted(holes, key=lambda each: each.begin):
        if begin < min(hole.begin, span.end):
            yield Span(begin=begin, end=min(hole.begin, span.end))
        begin = max(begin, hole.end)
    if begin < span.end:
        yield Span(begin=begin, end=span.end)

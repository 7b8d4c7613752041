"""When objects were on no shard that works, why, and for how long."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Final

from typing_extensions import override

from tests.history.departures import by_uid
from tests.history.moments import downs_of
from tests.history.traces import Down, Span, Trace

NO_LABEL: Final = "no owner label"


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A time in which an object was on no shard that works."""

    name: str
    owner: str
    """The shard that its label named, empty if it had none."""
    why: str
    span: Span

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.span.end - self.span.begin

    @override
    def __str__(self) -> str:
        on = f" on {self.owner}" if self.owner else ""
        return f"{self.name}{on} for {self.seconds:.1f} s, {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds that objects were without a shard that works."""

    count: int
    p50: float
    p99: float
    longest: float


def absences(trace: Trace) -> Iterator[Absence]:
    """Yield all of them."""
    downs = downs_of(trace)
    for states in by_uid(trace.writes).values():
        moves = [
            write
            for before, write in zip([None, *states], states, strict=False)
            if before is None or write.deleted or write.owner != before.owner
        ]
        for write, following in pairwise(moves):
            if write.owner:
                for why, span in _away(downs.get(write.owner, ()), write.at, following.at):
                    yield Absence(name=write.name, owner=write.owner, why=why, span=span)
            elif following.owner and not following.deleted:
                span = Span(begin=write.at, end=following.at)
                yield Absence(name=write.name, owner="", why=NO_LABEL, span=span)


def times(found: Sequence[Absence]) -> Times:
    """Return how many there are and how long they were."""
    ordered = sorted(absence.seconds for absence in found) or [0.0]

    def quantile(share: float) -> float:
        return ordered[min(len(ordered) - 1, ceil(share * len(ordered)) - 1)]

    return Times(count=len(found), p50=quantile(0.5), p99=quantile(0.99), longest=ordered[-1])


def _away(downs: Sequence[Down], begin: float, end: float) -> Iterator[tuple[str, Span]]:
    for down in downs:
        if down.begin < end and down.end > begin:
            yield f"{down.why}", Span(begin=max(down.begin, begin), end=min(down.end, end))

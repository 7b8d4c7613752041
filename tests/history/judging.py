"""What was wrong in a nemesis run: a pure function of all writes in the order of etcd."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from tests.history.absences import Absence, Times, absences, times
from tests.history.behind import behind
from tests.history.departures import by_uid, departures, hasty, robberies
from tests.history.moments import Leases, downs_of, leaderless_of
from tests.history.overlaps import Overlap, overlaps
from tests.history.traces import Child, Span, Trace, Write
from tests.history.twins import Twins, twins
from tests.history.unheld import unheld
from tests.history.unseen import without_unseen
from tests.history.writers import foreign

CALM_SECONDS: Final = 20.0
"""So long after an outage it may still be the reason why something is late."""
REFUSED_SECONDS: Final = 5.0
"""And so long why a request is refused."""


STRIPPED_SECONDS: Final = 2.8
"""So long an object whose label a user removed stays without owner, nearly 3 s: by then its last
shard has seen that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came out; each list is empty if all is well."""

    unacknowledged: list[str]
    """Objects that left a shard that held its Lease, without its acknowledgement."""
    stripped: list[str]
    """The same, where a user had removed the label a moment before."""
    hasty: list[str]
    """Objects that were taken too soon after the Lease of their shard was deleted."""
    robbed: list[str]
    """Leases that were taken from shards that lived."""
    foreign: list[str]
    """Writes of shards to objects of others, or to children of those."""
    born_twice: list[Twins]
    """Objects of which the child was created more than once."""
    overlaps: list[Overlap]
    unheld: list[str]
    """Work of shards that did not hold their Lease."""
    behind: list[str]
    """Children that were on another shard when their parent arrived."""
    refused: list[str]
    """Requests of users refused outside outages."""
    left: list[str]
    """What in the end is draining, without owner, of a shard that is not there, or, of children,
    not where the object is."""
    calm: Times
    """Without a working shard, away from outages, and while a sharder led."""
    all: Times
    """The same, always."""
    longest: Absence | None
    """The longest of the calm ones."""
    strips: int
    """How often an object moved after a user had removed its label, however late."""
    moves: int
    """Acknowledged ones."""
    fenced: int
    """Writes of shards that the fence refused."""

    def broken(self) -> Mapping[str, Sequence[object]]:
        """Return what must never happen, and how often it did; true at any moment of a run."""
        return {
            "writes by non-owners": self.foreign,
            "worked on by two": self.overlaps,
            "worked on without a Lease": self.unheld,
            "moved without acknowledgement": self.unacknowledged,
            "moved after their label was removed": self.stripped,
            "taken too soon": self.hasty,
            "Leases taken from shards that lived": self.robbed,
            "children created twice": self.born_twice,
            "left behind by their parent": self.behind,
            "requests refused": self.refused,
        }

    def found(self) -> Mapping[str, Sequence[object]]:
        """Return the same, and what must not be left in the end."""
        return {**self.broken(), "left behind": self.left}

    def problems(self, longest: float) -> list[str]:
        """Return what is wrong, if objects may be without a shard for so many seconds (p99)."""
        told = [f"{len(them)} {what}: {them[0]}" for what, them in self.found().items() if them]
        if self.calm.p99 > longest:
            told.append(f"without a shard for {self.calm.p99:.1f} s (p99)")
        return told


def judge(trace: Trace) -> Verdict:
    """Return what was wrong."""
    trace = without_unseen(trace)
    leases, moved = Leases(trace.leases), list(departures(trace.writes))
    taken = [
        d for d in moved if not d.acknowledged and leases.is_held(d.last.owner, d.taken.revision)
    ]
    away, leaderless = list(absences(trace)), leaderless_of(trace)
    calm = [
        each
        for each in away
        if not _touch(trace.outages, each.span, after=CALM_SECONDS)
        and not _touch(leaderless, each.span, after=0)
    ]
    return Verdict(
        unacknowledged=[str(d) for d in taken if d.stripped is None],
        stripped=[str(d) for d in taken if d.waited < STRIPPED_SECONDS],
        hasty=list(hasty(trace)),
        robbed=list(robberies(trace)),
        foreign=list(foreign(trace)),
        born_twice=list(twins(trace)),
        overlaps=list(overlaps(trace)),
        unheld=list(unheld(trace)),
        behind=list(behind(trace)),
        refused=[
            r.what
            for r in trace.refused
            if not _touch(trace.outages, Span(begin=r.begin, end=r.end), after=REFUSED_SECONDS)
        ],
        left=left_in(trace),
        calm=times(calm),
        all=times(away),
        longest=max(calm, key=lambda each: each.seconds, default=None),
        strips=sum(d.stripped is not None for d in taken),
        moves=sum(d.acknowledged for d in moved),
        fenced=len(trace.fenced),
    )


def _touch(spans: Sequence[Span], span: Span, *, after: float) -> bool:
    return any(each.touches(span.begin, span.end, after=after) for each in spans)


def left_in(trace: Trace) -> list[str]:
    """Return the part of the verdict that says what is left."""
    trace = without_unseen(trace)
    return [*_left(trace), *_apart(trace)]


def _left(trace: Trace) -> Iterator[str]:
    downs, leases = downs_of(trace), Leases(trace.leases)
    for write in _last(trace).values():
        is_away = any(down.end == inf for down in downs.get(write.owner, ()))
        is_there = leases.is_held(write.owner, inf) and not is_away
        if write.uid in trace.waiting:
            continue
        if not write.owner or write.draining or not is_there:
            yield f"{write.name}: {write.owner or 'none'}{' draining' if write.draining else ''}"


def _apart(trace: Trace) -> Iterator[str]:
    """Yield children that are not on the shard of their object, as long as that is there."""
    parents, children = _last(trace), dict[str, Child]()
    for child in trace.children:
        children[child.uid] = child
    for child in children.values():
        parent = None if child.parent in trace.waiting else parents.get(child.parent)
        if parent is not None and not child.deleted and child.owner != parent.owner:
            yield f"{child.name}: {child.owner or 'none'}, but {parent.name} is on {parent.owner}"


def _last(trace: Trace) -> Mapping[str, Write]:
    """Return the objects that are there in the end, by uid."""
    last = {uid: states[-1] for uid, states in by_uid(trace.writes).items()}
    return {uid: write for uid, write in last.items() if not write.deleted}

"""What was wrong in a nemesis run: a pure function of all writes in the order of etcd."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, inf
from typing import Final

from typing_extensions import override

from tests.long.nemesis.history import Leases, downs_of, leaderless_of
from tests.long.nemesis.overlaps import Overlap, overlaps
from tests.long.nemesis.traces import Span, Trace, Write

CALM_SECONDS: Final = 20.0
"""So long after an outage it may still be the reason why something is late."""
REFUSED_SECONDS: Final = 5.0
"""And so long why a request is refused."""


STRIPPED_SECONDS: Final = 2.8
"""So long an object whose label a user removed stays without owner, nearly 3 s: by then its last
shard has seen that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds that objects were without a shard that works."""

    count: int
    p50: float
    p99: float
    longest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came out; each list is empty if all is well."""

    unacknowledged: list[str]
    """Objects that left a shard that held its Lease, without its acknowledgement."""
    stripped: list[str]
    """The same, where a user had removed the label a moment before."""
    strips: int
    """How often an object moved after a user had removed its label, however late."""
    foreign: list[str]
    """Children whose content was written by a shard that their object was not on."""
    born_twice: list[str]
    """Children that were created more than once."""
    overlaps: list[Overlap]
    refused: list[str]
    """Requests refused outside outages."""
    left: list[str]
    """Objects that in the end are draining, without owner, or of a shard that is not there."""
    calm: Times
    """Away from outages, and while a sharder led."""
    all: Times
    moves: int
    """Acknowledged ones."""

    def problems(self, longest: float) -> list[str]:
        """Return what is wrong, if objects may be without a shard for so many seconds (p99)."""
        found: Mapping[str, Sequence[object]] = {
            "moved without acknowledgement": self.unacknowledged,
            "moved after their label was removed": self.stripped,
            "children written by non-owners": self.foreign,
            "children created twice": self.born_twice,
            "worked on by two": self.overlaps,
            "requests refused": self.refused,
            "left behind": self.left,
        }
        told = [f"{len(them)} {what}: {them[0]}" for what, them in found.items() if them]
        if self.calm.p99 > longest:
            told.append(f"without a shard for {self.calm.p99:.1f} s (p99)")
        return told


def judge(trace: Trace) -> Verdict:
    """Return what was wrong."""
    leases = Leases(trace.leases)
    departures = list(_departures(trace.writes))
    taken = [
        d
        for d in departures
        if not d.acknowledged and leases.is_held(d.last.owner, d.next.revision)
    ]
    times, leaderless = list(_times(trace)), leaderless_of(trace)
    calm = [
        end - begin
        for begin, end in times
        if not any(o.touches(begin, end, after=CALM_SECONDS) for o in trace.outages)
        and not any(none.touches(begin, end, after=0) for none in leaderless)
    ]
    return Verdict(
        unacknowledged=[str(d) for d in taken if d.stripped is None],
        stripped=[str(d) for d in taken if d.waited < STRIPPED_SECONDS],
        strips=sum(d.stripped is not None for d in taken),
        foreign=list(_foreign(trace)),
        born_twice=list(_born_twice(trace)),
        overlaps=list(overlaps(trace)),
        refused=[
            r.what
            for r in trace.refused
            if not any(o.touches(r.begin, r.end, after=REFUSED_SECONDS) for o in trace.outages)
        ],
        left=list(_left(trace, leases)),
        calm=_summary(calm),
        all=_summary([end - begin for begin, end in times]),
        moves=sum(d.acknowledged for d in departures),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Departure:
    """How an object came from one shard to another."""

    last: Write
    """The last write that showed it on the first."""
    next: Write
    """The first that showed it on the other."""
    acknowledged: bool
    """Whether the first one acknowledged a drain."""
    stripped: Write | None
    """The write of a user that removed its label, if one did."""

    @property
    def waited(self) -> float:
        """Seconds since then, infinite if no user removed the label."""
        return inf if self.stripped is None else self.next.at - self.stripped.at

    @override
    def __str__(self) -> str:
        later = self.next.at - (self.stripped or self.last).at
        return f"{self.next.name}: {self.last.owner} -> {self.next.owner} {later:.2f} s later"


def _departures(writes: Sequence[Write]) -> Iterator[_Departure]:
    for states in _by_uid(writes).values():
        last: Write | None = None
        stripped: Write | None = None
        acknowledged = False
        for before, write in zip([None, *states], states, strict=False):
            if last is None or write.owner in {"", last.owner}:
                if before is not None and before.owner and not write.owner:
                    by_user = write.stamp != before.stamp
                    acknowledged = before.draining and not by_user
                    stripped = write if by_user else None
            else:
                yield _Departure(
                    last=last, next=write, acknowledged=acknowledged, stripped=stripped
                )
            if write.owner:
                last, acknowledged, stripped = write, False, None


def _foreign(trace: Trace) -> Iterator[str]:
    owners = _Owners(trace.writes)
    content: dict[str, str] = {}
    for child in trace.children:
        changed = content.get(child.uid) != child.writer
        content[child.uid] = child.writer
        if child.deleted or not changed:
            continue
        there = owners.at(child.parent, child.revision)
        # An object whose label a user removed stays with its last shard until that one sees it.
        if there is not None and child.writer != there:
            yield f"{child.name}: by {child.writer}, but on {there or 'none'}"


def _born_twice(trace: Trace) -> Iterator[str]:
    gone = {w.uid: w.revision for w in trace.writes if w.deleted}
    births: defaultdict[str, set[str]] = defaultdict(set)
    for child in trace.children:
        if child.revision < gone.get(child.parent, inf):
            births[child.parent].add(child.uid)
    names = {w.uid: w.name for w in trace.writes}
    return (f"{names.get(uid, uid)}: {len(uids)}" for uid, uids in births.items() if len(uids) > 1)


def _left(trace: Trace, leases: Leases) -> Iterator[str]:
    for states in _by_uid(trace.writes).values():
        write = states[-1]
        if write.deleted:
            continue
        if not write.owner or write.draining or not leases.is_held(write.owner, inf):
            yield f"{write.name}: {write.owner or 'none'}{' draining' if write.draining else ''}"


def _times(trace: Trace) -> Iterator[tuple[float, float]]:
    """Yield from when to when an object was on no shard that works."""
    downs = downs_of(trace)
    for states in _by_uid(trace.writes).values():
        moves = [
            write
            for before, write in zip([None, *states], states, strict=False)
            if before is None or write.deleted or write.owner != before.owner
        ]
        for write, following in pairwise(moves):
            if write.owner:
                yield from _away(downs.get(write.owner, ()), write.at, following.at)
            elif following.owner and not following.deleted:
                yield write.at, following.at


def _away(downs: Sequence[Span], begin: float, end: float) -> Iterator[tuple[float, float]]:
    for down in downs:
        if down.begin < end and down.end > begin:
            yield max(down.begin, begin), min(down.end, end)


def _summary(times: Sequence[float]) -> Times:
    ordered = sorted(times) or [0.0]

    def quantile(share: float) -> float:
        return ordered[min(len(ordered) - 1, ceil(share * len(ordered)) - 1)]

    return Times(count=len(times), p50=quantile(0.5), p99=quantile(0.99), longest=ordered[-1])


def _by_uid(writes: Sequence[Write]) -> Mapping[str, list[Write]]:
    found: defaultdict[str, list[Write]] = defaultdict(list)
    for write in writes:
        found[write.uid].append(write)
    return found


class _Owners:
    """On which shard an object was when; one whose label a user removed stays on the last one."""

    def __init__(self, writes: Sequence[Write]) -> None:
        self._states: dict[str, list[tuple[int, str]]] = {}
        for uid, states in _by_uid(writes).items():
            owner, line = "", list[tuple[int, str]]()
            for before, write in zip([None, *states], states, strict=False):
                by_user = before is not None and write.stamp != before.stamp
                owner = owner if by_user and not write.owner else write.owner
                line.append((write.revision, owner))
            self._states[uid] = line

    def at(self, uid: str, revision: int) -> str | None:
        """Return it, None if the object was not there."""
        states = self._states.get(uid, [])
        index = bisect_right(states, revision, key=lambda state: state[0])
        return states[index - 1][1] if index else None

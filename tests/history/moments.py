"""What the writes to Leases and the events of processes say of a moment."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Final

from tests.history.traces import Down, Happening, Held, Span, Trace

LEADERLESS_SECONDS: Final = 2.5
"""A leader that has not renewed for so long is away, or the machine keeps it waiting: it renews
each second."""
LAST_SECONDS: Final = 1.0
"""So long after the begin of an outage its last answers can be noted."""
_BLINDED: Final = {Happening.PAUSED, Happening.CUT_OFF, Happening.STALLED}
_SEES: Final = {Happening.RESUMED, Happening.CONNECTED, Happening.ENDED}
_WATCHES: Final = {Happening.WATCHED, Happening.ENDED}
_GO_ON: Final = {Happening.RESUMED, Happening.ENDED}
_ENDS: Final = {Happening.KILLED, Happening.TERMINATED}
_AWAY: Final = {Happening.PAUSED, Happening.ENDED, Happening.CUT_OFF, Happening.FORGED}


class Leases:
    """Who held a Lease when."""

    def __init__(self, leases: Sequence[Held]) -> None:
        self._states: defaultdict[str, list[Held]] = defaultdict(list)
        for lease in leases:
            self._states[lease.shard].append(lease)

    def is_held(self, shard: str, revision: float) -> bool:
        """Return whether the shard held its Lease at a revision."""
        states = self._states.get(shard, [])
        index = bisect_right(states, revision, key=lambda held: held.revision)
        return bool(index) and states[index - 1].is_held

    def is_lost(self, shard: str, at: float) -> bool:
        """Return whether at a time the Lease was not the shard's, by the writer's clock.

        A Lease that was never seen is not lost.
        """
        states = [held for held in self._states.get(shard, []) if held.renewed <= at]
        return bool(states) and not states[-1].is_held


def pauses_of(trace: Trace) -> Mapping[str, Sequence[Span]]:
    """Return when each process stood still."""
    return _spans(trace, {Happening.PAUSED}, _GO_ON)


def blindness_of(trace: Trace) -> Mapping[str, Sequence[Span]]:
    """Return when each process saw nothing of the cluster, or not everything."""
    found = _spans(trace, _BLINDED, _SEES)
    for process, spans in _spans(trace, {Happening.UNWATCHED}, _WATCHES).items():
        found[process] += spans
    return found


def _spans(
    trace: Trace, begins: Collection[Happening], ends: Collection[Happening]
) -> defaultdict[str, list[Span]]:
    found: defaultdict[str, list[Span]] = defaultdict(list)
    begun: dict[str, float] = {}
    for event in trace.events:
        if event.kind in begins:
            begun.setdefault(event.process, event.at)
        elif event.kind in ends and event.process in begun:
            found[event.process].append(Span(begin=begun.pop(event.process), end=event.at))
    for process, begin in begun.items():
        found[process].append(Span(begin=begin))
    return found


def leaderless_of(trace: Trace) -> Sequence[Span]:
    """Return when no sharder led, from the last renewal of one to the first of the next."""
    return [
        Span(begin=before, end=after)
        for before, after in pairwise(trace.leading)
        if after - before > LEADERLESS_SECONDS
    ]


def outages_of(trace: Trace) -> Sequence[Span]:
    """Return when the API server was away: until a Lease was written again.

    It answers before it says that it is ready, on a busy machine many seconds before.
    """
    found = list[Span]()
    for outage in trace.outages:
        later = (held.at for held in trace.leases if held.at > outage.begin + LAST_SECONDS)
        found.append(Span(begin=outage.begin, end=min([outage.end, *later])))
    return found


def downs_of(trace: Trace) -> Mapping[str, Sequence[Down]]:
    """Return when each shard's process was away: until the shard itself wrote its Lease again.

    The sharder writes into the Leases of silent shards too, so the holder alone says nothing.
    """
    found: defaultdict[str, list[Down]] = defaultdict(list)
    last: dict[str, Happening] = {}
    for event in trace.events:
        if event.kind in {Happening.UNWATCHED, Happening.WATCHED}:
            continue
        before, last[event.process] = last.get(event.process), event.kind
        spans = found[event.process]
        if event.kind not in _AWAY or (spans and event.at < spans[-1].end):
            continue
        back = (
            held.at
            for held in trace.leases
            if held.shard == event.process and held.is_held and held.renewed > event.at
        )
        why = before if before in _ENDS and event.kind is Happening.ENDED else event.kind
        spans.append(Down(begin=event.at, end=min(back, default=inf), why=why))
    return found

"""What no judge blames a shard for: what docs/limits.md says of a label that a user removed.

The object gets its next shard 3 s later.  If its last one cannot see so long that the label is
gone, because it is paused, its connections are held back, or its watch ended and each try to list
again failed, both work on the object until it does.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tests.history.departures import departures
from tests.history.moments import blindness_of
from tests.history.traces import Trace

WAKE_SECONDS: Final = 1.0
"""So long after its connections are whole again a shard has to see what it lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unseen:
    """A time in which a shard could not see that it had lost an object."""

    shard: str
    uid: str
    name: str
    begin: float
    end: float

    def touches(self, shard: str, begin: float, end: float) -> bool:
        return self.shard == shard and self.begin <= end and begin <= self.end


def without_unseen(trace: Trace) -> Trace:
    """Return a trace without what shards did to such objects."""
    found = list(_unseen(trace))
    if not found:
        return trace
    at = {each.revision: each.at for each in trace.writes}
    at |= {each.revision: each.at for each in trace.children}
    sent = {
        each.revision
        for each in trace.sent
        for lost in found
        if lost.uid in {each.uid, each.parent}
        and lost.touches(each.shard, at.get(each.revision, 0.0), at.get(each.revision, 0.0))
    }
    children = {each.uid for each in trace.children if each.revision in sent}
    return replace(
        trace,
        sent=[each for each in trace.sent if each.revision not in sent],
        children=[each for each in trace.children if each.uid not in children],
        works=[
            work
            for work in trace.works
            if not any(
                work.object.rpartition("/")[2] == lost.name
                and lost.touches(work.shard, work.began, work.ended)
                for lost in found
            )
        ],
    )


def _unseen(trace: Trace) -> Iterator[_Unseen]:
    blindness = blindness_of(trace)
    for moved in departures(trace.writes):
        if moved.stripped is None:
            continue
        for span in blindness.get(moved.last.owner, ()):
            if span.begin <= moved.next.at and moved.stripped.at <= span.end:
                yield _Unseen(
                    shard=moved.last.owner,
                    uid=moved.next.uid,
                    name=moved.next.name,
                    begin=moved.next.at,
                    end=span.end + WAKE_SECONDS,
                )

"""Children that their parent left behind when it went to another shard."""

from collections import defaultdict
from collections.abc import Iterator

from tests.history.departures import departures
from tests.history.traces import Child, Trace

SETTLED_SECONDS = 2.0
"""A child that was written less long ago can be one that the list of the leader did not have."""


def behind(trace: Trace) -> Iterator[str]:
    """Yield children that were still on the former shard when their parent came to the next."""
    by_parent = defaultdict[str, list[Child]](list)
    for child in trace.children:
        by_parent[child.parent].append(child)
    for departure in departures(trace.writes):
        came, last = departure.next, dict[str, Child]()
        for child in by_parent[came.uid]:
            if child.revision < came.revision:
                last[child.uid] = child
        for child in last.values():
            is_settled = child.at < came.at - SETTLED_SECONDS
            if child.owner == departure.last.owner and not child.deleted and is_settled:
                yield f"{child.name} on {child.owner}, as {came.name} came to {came.owner}"

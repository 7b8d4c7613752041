"""Which shard wrote to what another one owned, by the audit log and the writes of etcd."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.history.departures import by_uid
from tests.history.traces import Sent, Trace, Write


def foreign(trace: Trace) -> Iterator[str]:
    """Yield the writes of shards to main objects of others, and to children of those.

    Several writers had the same revision as answer if the writes of all but one changed nothing.
    """
    owners, by_revision = _Owners(trace.writes), defaultdict[int, list[Sent]](list)
    for sent in trace.sent:
        by_revision[sent.revision].append(sent)
    for revision, answered in sorted(by_revision.items()):
        first = answered[0]
        there = owners.before(first.parent or first.uid, revision)
        writers = {sent.shard for sent in answered}
        if there is not None and not writers & {there, ""}:
            yield f"{first.name}: by {', '.join(sorted(writers))}, but on {there or 'none'}"


class _Owners:
    """On which shard an object was when.

    One whose label a user removed stays on the last one, which works on until it sees that.  So
    does one that is deleted while it has no owner: its last shard cleans up after it.
    """

    def __init__(self, writes: Sequence[Write]) -> None:
        self._states: dict[str, list[tuple[int, str]]] = {}
        for uid, states in by_uid(writes).items():
            owner = last = ""
            line = list[tuple[int, str]]()
            for before, write in zip([None, *states], states, strict=False):
                released = before is not None and before.owner and write.stamp == before.stamp
                owner = owner if not write.owner and not released else write.owner
                last = owner or last
                line.append((write.revision, last if write.deleted else owner))
            self._states[uid] = line

    def before(self, uid: str, revision: int) -> str | None:
        """Return it right before a write, None if the object was not there."""
        states = self._states.get(uid, [])
        index = bisect_right(states, revision - 1, key=lambda state: state[0])
        return states[index - 1][1] if index else None

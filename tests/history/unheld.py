"""Work of shards on objects while they did not hold their Lease."""

from collections import defaultdict
from collections.abc import Iterator

from tests.history.moments import pauses_of
from tests.history.traces import Held, Trace

SLACK_SECONDS = 0.3
"""The clocks of two processes differ, and a cancelled task takes a moment to end."""
WAKE_SECONDS = 1.0
"""So long after a pause a process has to see that it lost its Lease."""


def unheld(trace: Trace) -> Iterator[str]:
    """Yield work that went on after the shard's Lease was no longer its own, or had run out."""
    pauses, by_shard = pauses_of(trace), defaultdict[str, list[Held]](list)
    deleted = set[str]()
    for lease in trace.leases:
        never_held = lease.shard in deleted and not lease.is_held
        if lease.is_held or (lease.is_released and not never_held):
            by_shard[lease.shard].append(lease)
        (deleted.add if lease.deleted or never_held else deleted.discard)(lease.shard)
    end = max((lease.at for lease in trace.leases), default=0.0)
    for work in trace.works:
        leases = [each for each in by_shard[work.shard] if each.renewed <= work.began]
        if not leases:
            continue
        ends = _ends(by_shard[work.shard], leases[-1])
        still = pauses.get(work.shard, ())
        woken = any(p.touches(work.began, work.ended, after=WAKE_SECONDS) for p in still)
        late = min(work.ended, end) - ends
        if late > SLACK_SECONDS and not woken:
            yield f"{work.object}: by {work.shard} until {late:.1f} s after its Lease"


def _ends(leases: list[Held], last: Held) -> float:
    """Return when the shard's Lease ended that was its own at a moment.

    A shard that released it knows that at once; of others' writes it cannot know.
    """
    end = last.renewed + last.seconds if last.is_held else last.at
    for lease in leases[leases.index(last) + 1 :]:
        if lease.is_released or lease.at > end:
            return min(end, lease.at)
        end = max(end, lease.renewed + lease.seconds)
    return end

"""Who took what from whom: objects from shards, and Leases from shards."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Final

from typing_extensions import override

from sharder.core.leases.state import DEFAULT_DURATION, MAX_DURATION_SECONDS
from sharder.core.names import SHARDER_IDENTITY
from tests.history.moments import downs_of, outages_of, pauses_of
from tests.history.traces import Happening, Held, Span, Trace, Write

CLOCK_SECONDS: Final = 0.3
"""So much two times can be apart that were read off the clocks of two processes."""
NEW_SECONDS: Final = 3.0
"""An object that is younger and has no owner counts as one that never had any (docs/protocol.md,
"Objects that lost their owner label")."""
DEFAULT_SECONDS: Final = DEFAULT_DURATION.total_seconds()
OUTAGE_SECONDS: Final = 3.0
"""So much earlier the API server can answer than an outage is noted to end, or begin later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """How an object came from one shard to another."""

    last: Write
    """The last write that showed it on the first."""
    taken: Write
    """The one that took it from the first: an earlier one than the next if it was sent."""
    next: Write
    """The first that showed it on the other."""
    acknowledged: bool
    """Whether the first one acknowledged a drain."""
    stripped: Write | None
    """The write of a user that removed its label, if one did."""
    created_at: float

    @property
    def waited(self) -> float:
        """Seconds since then, infinite if no user removed the label, or that of a new object."""
        if self.stripped is None or self.stripped.at < self.created_at + NEW_SECONDS:
            return inf
        return self.next.at - self.stripped.at

    @override
    def __str__(self) -> str:
        later = self.next.at - (self.stripped or self.last).at
        return f"{self.next.name}: {self.last.owner} -> {self.next.owner} {later:.2f} s later"


def departures(writes: Sequence[Write]) -> Iterator[Departure]:
    """Yield how each object changed its shard."""
    for states in by_uid(writes).values():
        last: Write | None = None
        stripped: Write | None = None
        sent: Write | None = None
        acknowledged = False
        for before, write in zip([None, *states], states, strict=False):
            if last is None or write.owner in {"", last.owner}:
                if before is not None and before.owner and not write.owner:
                    by_user = write.stamp != before.stamp
                    acknowledged = before.draining and not by_user
                    stripped, sent = (write, None) if by_user else (None, write)
            else:
                if before is not None and before.owner:  # in one write, as no child moves first
                    acknowledged = before.draining and before.stamp == write.stamp
                yield Departure(
                    last=last,
                    taken=sent or write,
                    next=write,
                    acknowledged=acknowledged,
                    stripped=stripped,
                    created_at=states[0].at,
                )
            if write.owner:
                last, acknowledged, stripped, sent = write, False, None, None


def hasty(trace: Trace) -> Iterator[str]:
    """Yield objects taken within two durations of the last renewal of a Lease that was deleted."""
    by_shard = defaultdict[str, list[Held]](list)
    for lease in trace.leases:
        by_shard[lease.shard].append(lease)
    for moved in departures(trace.writes):
        past = [x for x in by_shard[moved.last.owner] if x.revision < moved.taken.revision]
        held = next((at for at, x in enumerate(reversed(past)) if x.is_held), 0)
        if moved.acknowledged or moved.stripped or not held or not past[-held].deleted:
            continue
        last = past[-held - 1]
        # A sharder might not have seen its last duration.
        seconds = min(each.seconds for each in past if each.is_held)
        seconds = seconds if seconds <= 2 * MAX_DURATION_SECONDS else DEFAULT_SECONDS
        if moved.taken.at < last.renewed + 2 * seconds - CLOCK_SECONDS:
            yield f"{moved}, {moved.taken.at - last.renewed:.1f} s after the last renewal"


def by_uid(writes: Sequence[Write]) -> Mapping[str, list[Write]]:
    """Return the writes to each object."""
    found: defaultdict[str, list[Write]] = defaultdict(list)
    for write in writes:
        found[write.uid].append(write)
    return found


def robberies(trace: Trace) -> Iterator[str]:
    """Yield Leases that the leader took too soon, or from a shard that was never away.

    Two durations must have passed since the last renewal, without the time in which the API
    server was away: the shard could not renew then.  A shard that stops can hang in its last
    request.
    """
    downs, by_shard = downs_of(trace), defaultdict[str, list[Held]](list)
    outages = outages_of(trace)
    stops = [(each.process, each.at) for each in trace.events if each.kind is Happening.TERMINATED]
    for lease in trace.leases:
        by_shard[lease.shard].append(lease)
    still = [x for who, spans in pauses_of(trace).items() if who not in by_shard for x in spans]
    for shard, states in by_shard.items():
        for before, after in pairwise(states):
            if not before.is_held or after.holder != SHARDER_IDENTITY:
                continue
            silence = Span(begin=before.renewed, end=after.renewed)
            outage = sum(_common(silence, each) for each in outages)
            if any(each.touches(silence.begin, silence.end, after=0) for each in still):
                outage = 0.0  # who is paused sees no outage
            slack = CLOCK_SECONDS + (OUTAGE_SECONDS if outage else 0.0)
            seconds = silence.end - silence.begin
            is_early = seconds - outage < 2 * before.seconds - slack
            was_away = any(d.touches(silence.begin, silence.end, after=0) for d in downs[shard])
            stops_then = any(s == shard and silence.begin < at < silence.end for s, at in stops)
            if is_early or not (was_away or stops_then):
                without = f", {outage:.1f} s of them in outages" if outage else ""
                yield f"{shard}: {seconds:.1f} s after its last renewal{without}"


def _common(one: Span, other: Span) -> float:
    return max(0.0, min(one.end, other.end) - max(one.begin, other.begin))

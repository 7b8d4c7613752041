"""What happened to an object and to its shards, in the order of time."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from tests.history.judging import Verdict
from tests.history.traces import Held, Span, Trace, Write

EXAMPLES: Final = 2
LONGEST_LINES: Final = 25
AFTER_SECONDS: Final = 2.0


def histories(trace: Trace, verdict: Verdict) -> Iterator[str]:
    """Yield how it came that two worked on one object, that it had twins, or no shard for long."""
    for overlap in verdict.overlaps[:EXAMPLES]:
        name = overlap.first.object.rpartition("/")[2]
        until = min(overlap.first.ended, overlap.second.ended)
        yield from _history(trace, f"{overlap}", name, Span(begin=overlap.at, end=until))
    for twins in verdict.born_twice[:EXAMPLES]:
        first, second, *_ = twins.children
        yield from _history(trace, f"{twins}", twins.name, Span(begin=first.at, end=second.at))
    if longest := verdict.longest:
        lines = list(_history(trace, f"{longest}", longest.name, longest.span, before=5.0))
        yield "the longest, while a sharder led and away from outages:"
        yield from lines[:LONGEST_LINES]
        if len(lines) > LONGEST_LINES:
            yield f"  and {len(lines) - LONGEST_LINES} lines more"


def _history(
    trace: Trace, what: str, name: str, span: Span, *, before: float = 20.0
) -> Iterator[str]:
    """Yield a line for each thing that happened; times count from the begin of the span."""
    yield f"how it came that {what}:"
    begin, end = span.begin - before, span.end + AFTER_SECONDS
    for when, what in sorted(_things(trace, name)):
        if begin <= when <= end:
            yield f"  {when - span.begin:+8.3f} s  {what}"


def _things(trace: Trace, name: str) -> Iterator[tuple[float, str]]:
    """Yield what happened to an object, its children, the shards that had it, and all sharders."""
    writes = [write for write in trace.writes if write.name == name]
    works = [work for work in trace.works if work.object.rpartition("/")[2] == name]
    uids = {write.uid for write in writes}
    children = [child for child in trace.children if child.parent in uids]
    shards = {write.owner for write in writes} | {child.owner for child in children}
    shards |= {work.shard for work in works}
    of_others = {each.shard for each in trace.leases} - shards
    for event in trace.events:
        if event.process not in of_others:
            yield event.at, f"{event.process} {event.kind}"
    yield from _told_leases([each for each in trace.leases if each.shard in shards])
    yield from _told_writes(writes)
    for child in children:
        told = "deleted" if child.deleted else f"owner {child.owner or 'none'}"
        yield child.at, f"child {child.name} at revision {child.revision}: {told}"
    for work in works:
        yield work.began, f"{work.shard} begins to work"
        yield work.ended, f"{work.shard} ends its work"


def _told_leases(leases: Sequence[Held]) -> Iterator[tuple[float, str]]:
    """Yield writes to Leases, of renewals in a row the first and the last."""
    by_shard: defaultdict[str, list[Held]] = defaultdict(list)
    for lease in leases:
        by_shard[lease.shard].append(lease)
    for states in by_shard.values():
        beside = zip([None, *states], states, [*states[1:], None], strict=False)
        for before, lease, after in beside:
            if _is_alike(before, lease) and _is_alike(lease, after):
                continue
            late = lease.at - lease.renewed
            yield (
                lease.at,
                f"Lease {lease.shard} at revision {lease.revision}: "
                f"holder {lease.holder or 'none'}, renewed {late:.3f} s before, "
                f"state {lease.state or 'none'}",
            )


def _is_alike(one: Held | None, other: Held | None) -> bool:
    if one is None or other is None:
        return False
    return (one.holder, one.state) == (other.holder, other.state)


def _told_writes(writes: Sequence[Write]) -> Iterator[tuple[float, str]]:
    for before, write in zip([None, *writes], writes, strict=False):
        labels = f"owner {write.owner or 'none'}{', draining' if write.draining else ''}"
        is_by_user = before is None or write.stamp != before.stamp
        by = "a user's" if is_by_user else "a shard's or the sharder's"
        what = "deleted" if write.deleted else labels
        yield write.at, f"object at revision {write.revision}: {what}, {by} write"

"""What happened to an object and to its shards, in the order of time."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from tests.history.traces import Held, Span, Trace, Write


def timeline(
    trace: Trace, name: str, shards: Collection[str], within: Span, *, zero: float
) -> Iterator[str]:
    """Yield a line for each thing that happened; times count from `zero`."""
    of_others = {each.shard for each in trace.leases} - set(shards)
    things = [
        *((e.at, f"{e.process} {e.kind}") for e in trace.events if e.process not in of_others),
        *_told_leases([each for each in trace.leases if each.shard in shards]),
        *_told_writes(trace.writes, name),
        *_told_children(trace, name),
    ]
    for work in trace.works:
        if work.object.rpartition("/")[2] == name:
            things.append((work.began, f"{work.shard} begins to work"))
            things.append((work.ended, f"{work.shard} ends its work"))
    for when, what in sorted(things):
        if within.begin <= when <= within.end:
            yield f"{when - zero:+8.3f} s  {what}"


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


def _told_writes(writes: Sequence[Write], name: str) -> Iterator[tuple[float, str]]:
    states = [write for write in writes if write.name == name]
    for before, write in zip([None, *states], states, strict=False):
        labels = f"owner {write.owner or 'none'}{', draining' if write.draining else ''}"
        is_by_user = before is None or write.stamp != before.stamp
        by = "a user's" if is_by_user else "a shard's or the sharder's"
        what = "deleted" if write.deleted else labels
        yield write.at, f"object at revision {write.revision}: {what}, {by} write"


def _told_children(trace: Trace, name: str) -> Iterator[tuple[float, str]]:
    uids = {write.uid for write in trace.writes if write.name == name}
    for child in trace.children:
        if child.parent in uids:
            what = "deleted" if child.deleted else f"owner {child.owner or 'none'}"
            yield child.at, f"child {child.name} at revision {child.revision}: {what}"

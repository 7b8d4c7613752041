"""The Leases of one ring as this process has seen them, bounded in number.

A client that can write Leases can label any number of them with a ring's name.  So only a bounded
number is kept for each ring: the oldest Leases that shards hold, some others, and some that were
deleted.  If there is no room for a Lease, it is forgotten, and the ring is *crowded* until the
next list: then an unknown name might be that of a working shard, until the API server was asked.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Final, NamedTuple

from msgspec import structs

from sharder.core.api.lease import Lease, parse_time
from sharder.core.leases.observed import ObservedLease
from sharder.core.leases.shard import Shard, shard_of
from sharder.core.leases.state import ShardState, is_given_up, is_held, stops_after
from sharder.core.leases.validity import MAX_LEASES, problem_of
from sharder.core.names import STATE_LABEL, ObjectRef

MAX_HELD: Final = MAX_LEASES + 16
"""Maximum Leases of one ring that shards hold: 16 of the surplus, so that Events report some."""

MAX_OTHERS: Final = MAX_LEASES
"""Maximum other Leases of one ring, and maximum deleted ones that are remembered."""


@dataclass(frozen=True, slots=True)
class Known:
    """A Lease as last seen, and how it was judged then."""

    observed: ObservedLease
    shard: Shard
    problem: str | None
    """Why it makes no shard in any ring; None: it can make one."""
    worked: bool = False
    """Whether it was ever seen held and making a shard of the ring."""

    @property
    def lease(self) -> Lease:
        """The Lease as last seen."""
        return self.observed.lease

    def is_merely_renewed(self, lease: Lease, at: float) -> bool:
        """Return whether `lease`, seen at `at`, differs only by a renewal that came in time.

        Its state was READY and remains READY, and its label says so.  So nothing that depends on
        the Lease changes.
        """
        meta, spec = self.lease.metadata, self.lease.spec
        return (
            self.problem is None
            and self.observed.renewed
            # A Lease without a problem lasts as long as its spec says.
            and at < self.observed.since + (spec.lease_duration_seconds or 0)
            and is_held(lease)
            and meta.label(STATE_LABEL) == ShardState.READY
            and lease.spec == structs.replace(spec, renew_time=lease.spec.renew_time)
            and lease.metadata
            == structs.replace(meta, resource_version=lease.metadata.resource_version)
            and parse_time(lease.spec.renew_time) is not None
        )


class _Rank(NamedTuple):
    """The order in which Leases are kept."""

    is_foreign: bool
    never_worked: bool
    created: str
    ref: ObjectRef


class RingLeases:
    """The kept Leases of one ring."""

    def __init__(self) -> None:
        self.is_crowded = False
        """Whether a Lease was forgotten whose shard might work."""
        self.departed: dict[ObjectRef, float] = {}
        """Deleted Leases, and until when their shards might work."""
        self.doubted_until = float("-inf")
        """Until when a shard whose deleted Lease was forgotten might work."""
        self.ambiguous: set[str] = set()
        """Names of forgotten Leases for which there is a Lease in another namespace."""
        self.namespaces: frozenset[str] = frozenset()
        """The namespaces of the ring's shards; empty: all."""
        self.is_judged = False
        """Whether members were computed once: then all members in other namespaces are known."""
        self.longest = 0.0
        """Twice the duration of the longest forgotten Lease, in seconds."""
        self._known: dict[ObjectRef, Known] = {}
        self._held = list[_Rank]()
        """The Leases that make shards and are held, ..."""
        self._others = list[_Rank]()
        """... and the others, the first ones to forget last."""
        self._has_forgotten = False
        """Whether a Lease was forgotten since the last list."""

    def __len__(self) -> int:
        """Return how many Leases are kept."""
        return len(self._known)

    def __iter__(self) -> Iterator[Known]:
        """Yield the kept Leases in any order."""
        return iter(self._known.values())

    @property
    def by_ref(self) -> Mapping[ObjectRef, Known]:
        """The kept Leases."""
        return self._known

    def get(self, ref: ObjectRef) -> Known | None:
        """Return a kept Lease, None if it is not kept."""
        return self._known.get(ref)

    def counts(self, ref: ObjectRef) -> bool:
        """Return whether a Lease is in the namespaces of the ring's shards."""
        return not self.namespaces or ref.namespace in self.namespaces

    def live_in(self, namespaces: Collection[str]) -> list[ObjectRef]:
        """Set the namespaces of the ring's shards, and return the Leases that are dropped."""
        self.namespaces = frozenset(namespaces)
        known, self._known = self._known, {}
        self._held, self._others = [], []
        evicted = [self.keep(each) for each in known.values()]
        return [ref for ref in evicted if ref is not None]

    def keep(self, known: Known) -> ObjectRef | None:
        """Keep a Lease as it is now, and return the Lease that is dropped instead, if any."""
        ref, order = known.lease.metadata.ref, self._order(known)
        before = self._take_out(ref)
        if order is self._held or (before is not None and before.worked):
            known = replace(known, worked=True)
        insort(order, self._rank(known))
        self._known[ref] = known
        if len(order) <= (MAX_HELD if order is self._held else MAX_OTHERS):
            return None
        evicted = order[-1].ref
        self._forget(evicted)
        return evicted

    def renew(self, lease: Lease, at: float) -> bool:
        """Keep a Lease if it was merely renewed; return whether it was."""
        ref = lease.metadata.ref
        known = self._known.get(ref)
        if known is None or not known.is_merely_renewed(lease, at):
            return False
        # Shard and rank do not depend on the time of the renewal.
        observed = known.observed.then(lease, at)
        self._known[ref] = Known(observed, known.shard, known.problem, known.worked)
        return True

    def remove(self, ref: ObjectRef) -> Known:
        """Drop a kept Lease and return it."""
        known = self._known[ref]
        self._take_out(ref)
        return known

    def _take_out(self, ref: ObjectRef) -> Known | None:
        known = self._known.pop(ref, None)
        if known is not None:
            order = self._order(known)
            del order[bisect_left(order, self._rank(known))]
        return known

    def depart(self, ref: ObjectRef, until: float) -> None:
        """Remember a deleted Lease; an earlier time does not replace a later one."""
        self.departed[ref] = max(until, self.departed.get(ref, -inf))
        if len(self.departed) > MAX_OTHERS:
            first = min(self.departed, key=self.departed.__getitem__)
            self.doubted_until = max(self.doubted_until, self.departed.pop(first))

    def is_doubtful(self, at: float) -> bool:
        """Return whether an unknown name might be that of a working shard."""
        return self.is_crowded or at < self.doubted_until

    def prune(self, at: float) -> None:
        """Forget departed shards that have the same standing as unknown ones."""
        if self.is_doubtful(at):
            return
        self.departed = {ref: until for ref, until in self.departed.items() if until > at}

    def begin_list(self) -> None:
        """Begin a list of all Leases."""
        self._has_forgotten = False

    def end_list(self, at: float) -> bool:
        """End the list; return whether the ring is no longer crowded.

        That is so if no Lease was forgotten since the list began.  A Lease that was forgotten and
        then deleted might have been renewed until `at`.
        """
        if not self.is_crowded or self._has_forgotten:
            return False
        self.is_crowded = False
        self.ambiguous.clear()
        self.doubted_until = max(self.doubted_until, at + self.longest)
        self.longest = 0.0
        return True

    def _forget(self, ref: ObjectRef) -> None:
        known = self._take_out(ref)
        if known is None or is_given_up(known.lease):
            return
        if not self.counts(ref) and self.is_judged and not known.worked:
            return  # It never made a shard of the ring.
        self.is_crowded = self._has_forgotten = True
        self.longest = max(self.longest, stops_after(known.lease))
        if any(other.name == ref.name for other in self._known):
            self.ambiguous.add(ref.name)

    def _order(self, known: Known) -> list[_Rank]:
        is_shard = known.problem is None and is_held(known.lease)
        return self._held if is_shard and self.counts(known.lease.metadata.ref) else self._others

    def _rank(self, known: Known) -> _Rank:
        meta = known.lease.metadata
        is_foreign = not self.counts(meta.ref)
        return _Rank(is_foreign, not known.worked, meta.creation_timestamp or "", meta.ref)


def judged(lease: Lease, before: Known | None, at: float) -> Known:
    """Return the Lease as seen at `at`; its shard is parsed again only if its text has changed."""
    if before is None:
        observed, parsed = ObservedLease(lease, at), None
    else:
        observed = before.observed.then(lease, at)
        parsed = before if _says_the_same(before.lease, lease) else None
    return Known(
        observed=observed,
        shard=parsed.shard if parsed is not None else shard_of(lease),
        problem=problem_of(lease),
    )


def _says_the_same(before: Lease, lease: Lease) -> bool:
    then, now = before.metadata, lease.metadata
    described = (then.labels, then.annotations, before.spec.acquire_time)
    return described == (now.labels, now.annotations, lease.spec.acquire_time)

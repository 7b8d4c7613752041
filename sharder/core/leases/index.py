"""The Leases of one ring as this process has seen them, bounded in number.

A client that can write Leases can label any number of them with a ring's name.  So only a bounded
number is kept for each ring: the oldest Leases of shards, some that make no shard, some outside
the ring's namespaces, and some that were deleted.  If there is no room for a Lease, it is
forgotten, and the ring is *crowded* until the next list: then an unknown name might be that of a
working shard.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, NamedTuple

from msgspec import structs

from sharder.core.api.lease import Lease, parse_time
from sharder.core.leases.departures import Departures
from sharder.core.leases.observed import ObservedLease
from sharder.core.leases.shard import Shard, shard_of
from sharder.core.leases.state import ShardState, is_given_up, is_held, stops_after
from sharder.core.leases.validity import MAX_LEASES, problem_of
from sharder.core.names import STATE_LABEL, ObjectRef


class Tier(IntEnum):
    """What a Lease means to its ring."""

    SHARD = 0
    """It makes a shard and is held."""
    OTHER = 1
    """It does not make a shard at present."""
    FOREIGN = 2
    """It is outside the ring's namespaces."""


REPORTED = 16
"""Leases of shards beyond the limit that are kept, so that Events can report some of them."""

LIMITS: Final = {
    Tier.SHARD: MAX_LEASES + REPORTED,
    Tier.OTHER: MAX_LEASES,
    Tier.FOREIGN: MAX_LEASES // 4,
}
"""Maximum Leases of one ring in each tier."""

MAX_DEPARTED: Final = MAX_LEASES
"""Maximum deleted Leases of one ring that are remembered."""


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
    """The order within a tier: the first Leases are kept."""

    never_worked: bool
    created: str
    ref: ObjectRef


class RingLeases:
    """The kept Leases of one ring."""

    def __init__(self) -> None:
        self.is_crowded = False
        """Whether a Lease was forgotten whose shard might work."""
        self.departed = Departures()
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
        self._order: dict[Tier, list[_Rank]] = {tier: [] for tier in Tier}
        self._names = Counter[str]()
        self._forgot = set[Tier]()
        """Tiers in which Leases were forgotten since the last list."""

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

    def has_room(self) -> bool:
        """Return whether there is room for some Leases that a list would show."""
        return any(len(self._order[tier]) < LIMITS[tier] for tier in self._forgot or Tier)

    def live_in(self, namespaces: Collection[str]) -> list[ObjectRef]:
        """Set the namespaces of the ring's shards, and return the Leases that are dropped."""
        self.namespaces = frozenset(namespaces)
        known, self._known = self._known, {}
        self._order = {tier: [] for tier in Tier}
        self._names.clear()
        evicted = [self.keep(each) for each in known.values()]
        return [ref for ref in evicted if ref is not None]

    def keep(self, known: Known) -> ObjectRef | None:
        """Keep a Lease as it is now, and return the Lease that is dropped instead, if any."""
        ref, tier = known.lease.metadata.ref, self._tier(known)
        before = self._take_out(ref)
        if tier is Tier.SHARD or (before is not None and before.worked):
            known = replace(known, worked=True)
        order = self._order[tier]
        insort(order, _rank(known))
        self._known[ref] = known
        self._names[ref.name] += 1
        if len(order) <= LIMITS[tier]:
            return None
        evicted = order[-1].ref
        self._forget(evicted, tier)
        return evicted

    def renew(self, lease: Lease, at: float) -> bool:
        """Keep a Lease if it was merely renewed; return whether it was."""
        ref = lease.metadata.ref
        known = self._known.get(ref)
        if known is None or not known.is_merely_renewed(lease, at):
            return False
        # Shard, tier and rank do not depend on the time of the renewal.
        observed = known.observed.then(lease, at)
        self._known[ref] = Known(observed, known.shard, known.problem, known.worked)
        return True

    def remove(self, ref: ObjectRef) -> Known:
        """Drop a kept Lease and return it."""
        known = self._known[ref]
        self._take_out(ref)
        if ref.name not in self._names:
            self.ambiguous.discard(ref.name)
        return known

    def _take_out(self, ref: ObjectRef) -> Known | None:
        known = self._known.pop(ref, None)
        if known is not None:
            order = self._order[self._tier(known)]
            del order[bisect_left(order, _rank(known))]
            self._names[ref.name] -= 1
            if not self._names[ref.name]:
                del self._names[ref.name]
        return known

    def depart(self, ref: ObjectRef, until: float) -> None:
        """Remember a deleted Lease; an earlier time does not replace a later one."""
        self.departed.note(ref, until)
        if len(self.departed) > MAX_DEPARTED:
            self.doubted_until = max(self.doubted_until, self.departed.pop_first())

    def prune(self, at: float) -> None:
        """Forget departed shards that have the same standing as unknown ones."""
        self.departed.prune(at)

    def begin_list(self) -> None:
        """Begin a list of all Leases."""
        self._forgot.clear()

    def end_list(self, at: float) -> bool:
        """End the list; return whether the ring is no longer crowded.

        That is so if no Lease was forgotten since the list began.  A Lease that was forgotten and
        then deleted might have been renewed until `at`.
        """
        if not self.is_crowded or self._forgot:
            return False
        self.is_crowded = False
        self.ambiguous.clear()
        self.doubted_until = max(self.doubted_until, at + self.longest)
        self.longest = 0.0
        return True

    def _forget(self, ref: ObjectRef, tier: Tier) -> None:
        known = self._take_out(ref)
        if known is None or is_given_up(known.lease):
            return
        if tier is Tier.FOREIGN and self.is_judged and not known.worked:
            return  # It never made a shard of the ring.
        self.is_crowded = True
        self._forgot.add(tier)
        self.longest = max(self.longest, stops_after(known.lease))
        if self._names[ref.name]:
            self.ambiguous.add(ref.name)

    def _tier(self, known: Known) -> Tier:
        lease = known.lease
        if not self.counts(lease.metadata.ref):
            return Tier.FOREIGN
        return Tier.SHARD if known.problem is None and is_held(lease) else Tier.OTHER


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


def _rank(known: Known) -> _Rank:
    meta = known.lease.metadata
    return _Rank(not known.worked, meta.creation_timestamp or "", meta.ref)


def _says_the_same(before: Lease, lease: Lease) -> bool:
    then, now = before.metadata, lease.metadata
    described = (then.labels, then.annotations, before.spec.acquire_time)
    return described == (now.labels, now.annotations, lease.spec.acquire_time)

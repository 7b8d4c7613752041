"""The Leases of one ring as this process has seen them, judged once each, and bounded in number.

Whoever may write Leases can label any number of them with a ring's name.  So what is kept of a
ring is bounded: the oldest that make shards, some that make none, some outside the ring's
namespaces, and some that are gone.  What finds no room is forgotten, and the ring is *crowded*
from then to the next list: a name of which nothing is known may be that of a shard at work.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, NamedTuple

from sharder.core.api.lease import Lease
from sharder.core.leases.departures import Departures
from sharder.core.leases.shard import Shard, shard_of
from sharder.core.leases.state import ObservedLease, duration_of, is_given_up, is_held, problem_of
from sharder.core.leases.validity import MAX_LEASES
from sharder.core.names import ObjectRef


class Tier(IntEnum):
    """What a Lease is to its ring."""

    SHARD = 0
    """It makes a shard, and is held."""
    OTHER = 1
    """It makes none now."""
    FOREIGN = 2
    """It is outside the ring's namespaces."""


TOLD = 16
"""Shards beyond the limit that are kept, so that an Event tells people of some."""

LIMITS: Final = {
    Tier.SHARD: MAX_LEASES + TOLD,
    Tier.OTHER: MAX_LEASES,
    Tier.FOREIGN: MAX_LEASES // 4,
}
"""Leases of one ring that are kept of each tier."""

MAX_DEPARTED: Final = MAX_LEASES
"""Leases of one ring that are gone and remembered."""


@dataclass(frozen=True, slots=True)
class Known:
    """A Lease, and what it was judged to be when it was seen."""

    sighting: ObservedLease
    shard: Shard
    problem: str | None
    """Why it makes no shard, whatever the ring says."""
    worked: bool = False
    """Whether it was seen to make a shard of the ring that holds it."""

    @property
    def lease(self) -> Lease:
        """The Lease as last seen."""
        return self.sighting.lease


class _Rank(NamedTuple):
    """Who is kept first, within a tier."""

    never_worked: bool
    created: str
    ref: ObjectRef


class RingLeases:
    """What is kept of one ring's Leases."""

    def __init__(self) -> None:
        self.is_crowded = False
        """Whether a Lease was forgotten under which a shard may work."""
        self.departed = Departures()
        """Leases that are gone, and until when their shards may work."""
        self.doubted_until = float("-inf")
        """Until when a shard may work whose departure was forgotten."""
        self.ambiguous: set[str] = set()
        """Names of forgotten Leases that stand in another namespace too."""
        self.namespaces: frozenset[str] = frozenset()
        """Where the ring's shards live; none: anywhere."""
        self.is_judged = False
        """Whether members were worked out: then all of them are known that live elsewhere."""
        self.longest = 0.0
        """Two durations, in seconds, of the longest Lease that was forgotten."""
        self._known: dict[ObjectRef, Known] = {}
        self._order: dict[Tier, list[_Rank]] = {tier: [] for tier in Tier}
        self._names = Counter[str]()
        self._forgot = set[Tier]()
        """Of which tiers Leases were forgotten since the last list."""

    def __len__(self) -> int:
        """Return how many Leases are kept."""
        return len(self._known)

    def __iter__(self) -> Iterator[Known]:
        """Yield what is kept, in no order."""
        return iter(self._known.values())

    def get(self, ref: ObjectRef) -> Known | None:
        """Return what is known of a Lease."""
        return self._known.get(ref)

    def counts(self, ref: ObjectRef) -> bool:
        """Tell whether a Lease is where the ring's shards live."""
        return not self.namespaces or ref.namespace in self.namespaces

    def has_room(self) -> bool:
        """Tell whether a list would show Leases that could be kept."""
        return any(len(self._order[tier]) < LIMITS[tier] for tier in self._forgot or Tier)

    def live_in(self, namespaces: Collection[str]) -> list[ObjectRef]:
        """Take note of where the ring's shards live; return the Leases that are not kept then."""
        self.namespaces = frozenset(namespaces)
        known, self._known = self._known, {}
        self._order = {tier: [] for tier in Tier}
        self._names.clear()
        evicted = [self.keep(each) for each in known.values()]
        return [ref for ref in evicted if ref is not None]

    def keep(self, known: Known) -> ObjectRef | None:
        """Keep a Lease as it is now; return the one that is not kept any more instead."""
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

    def remove(self, ref: ObjectRef) -> Known:
        """Keep a Lease no longer that was kept; return what was known of it."""
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
        """Remember that a Lease is gone; a shorter wait does not replace a longer one."""
        self.departed.note(ref, until)
        if len(self.departed) > MAX_DEPARTED:
            self.doubted_until = max(self.doubted_until, self.departed.pop_first())

    def prune(self, at: float) -> None:
        """Forget departures that a stranger's standing describes as well."""
        self.departed.prune(at)

    def begin_list(self) -> None:
        """All Leases are about to be shown."""
        self._forgot.clear()

    def end_list(self, at: float) -> bool:
        """Tell whether the ring is crowded no more, now that all Leases were shown.

        One that was forgotten, and is gone by now, may have been renewed until `at`.
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
            return  # it was never one of the ring's shards
        self.is_crowded = True
        self._forgot.add(tier)
        self.longest = max(self.longest, 2 * duration_of(known.lease).total_seconds())
        if self._names[ref.name]:
            self.ambiguous.add(ref.name)

    def _tier(self, known: Known) -> Tier:
        lease = known.lease
        if not self.counts(lease.metadata.ref):
            return Tier.FOREIGN
        return Tier.SHARD if known.problem is None and is_held(lease) else Tier.OTHER


def judged(lease: Lease, before: Known | None, at: float) -> Known:
    """Return what a Lease is that is seen at `at`; what it says in the same words stands."""
    if before is None:
        sighting, said = ObservedLease(lease, at), None
    else:
        sighting = before.sighting.then(lease, at)
        said = before if _says_the_same(before.lease, lease) else None
    return Known(
        sighting=sighting,
        shard=said.shard if said is not None else shard_of(lease),
        problem=problem_of(lease),
    )


def _rank(known: Known) -> _Rank:
    meta = known.lease.metadata
    return _Rank(not known.worked, meta.creation_timestamp or "", meta.ref)


def _says_the_same(before: Lease, lease: Lease) -> bool:
    then, now = before.metadata, lease.metadata
    said = (then.labels, then.annotations, before.spec.acquire_time)
    return said == (now.labels, now.annotations, lease.spec.acquire_time)

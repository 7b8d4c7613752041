"""The Leases of all rings as this process has seen them, and the members of the rings.

This module keeps everything that the standing of a shard depends on: the Leases as last seen, and
those that were deleted.  It has no clock: each call passes the time in monotonic seconds.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf

from sharder.core.api.lease import Lease
from sharder.core.leases.index import Known, RingLeases, judged
from sharder.core.leases.membership import Members, Standing, members_of, ring_of, standing_by
from sharder.core.leases.observed import ObservedLease
from sharder.core.leases.outages import Outages
from sharder.core.leases.state import (
    DEFAULT_DURATION,
    SILENT_DURATIONS,
    is_given_up,
    is_held,
    stops_after,
)
from sharder.core.leases.validity import MAX_LEASES
from sharder.core.names import ObjectRef, RingName, ShardName

UNKNOWN_SILENCE = SILENT_DURATIONS * DEFAULT_DURATION.total_seconds()
"""Seconds after our start during which a shard that we have never seen might be working."""

PIECE = 64
"""Leases that are handled before other tasks can run."""

MAX_GUESTS = MAX_LEASES
"""Maximum Leases that are kept of all unknown rings together."""


@dataclass(slots=True)
class _Ring:
    """One ring's Leases, and its members as last computed."""

    leases: RingLeases = field(default_factory=RingLeases)
    is_known: bool = False
    """Whether the ring exists; if not, only Leases name it."""
    members: Members | None = None
    is_stale: bool = True
    """Whether anything has changed since the members were computed."""
    valid_until: float = 0.0
    """When the members change only because time passes."""
    back: set[str] = field(default_factory=set)
    """Names that were gone when the members were computed, and whose shards might work by now."""

    def takes_for_gone(self, name: str) -> bool:
        """Return whether the shard is gone in the members as last computed."""
        return (
            self.members is not None and self.members.standing_of(ShardName(name)) is Standing.GONE
        )

    def still_has(self, members: Members | None, at: float) -> bool:
        """Return whether these are still the ring's members at `at`."""
        is_last = members is not None and members is self.members
        return is_last and not self.is_stale and at < self.valid_until

    def next_edge(self, at: float) -> float:
        """Return when a standing next changes only because time passes; not for unknown shards."""
        edges = [*self.leases.departed.values(), self.leases.doubted_until]
        return min((edge for edge in edges if edge > at), default=inf)


class Membership:
    """The Leases of all rings as this process has seen them; changed only by its methods."""

    def __init__(self, started: float) -> None:
        """Remember when this process began to watch."""
        self._rings: dict[RingName, _Ring] = {}
        self._places: dict[ObjectRef, RingName] = {}
        """The ring of each kept Lease."""
        self._longest = 0.0
        """Twice the duration of the longest guest that was not kept, 0 if all were kept."""
        self._guests_until = float("-inf")
        """Until when the shards of deleted guests might work."""
        self._outages = Outages()
        self.begin(started)

    def begin(self, at: float) -> None:
        """Assume that shards that were never seen might have renewed until `at`."""
        self._strangers_until = at + UNKNOWN_SILENCE

    def expect(self, name: RingName, namespaces: Collection[str]) -> None:
        """Record that a ring exists, and the namespaces of its shards; empty: all."""
        ring = self._rings.setdefault(name, _Ring())
        if not ring.is_known:
            ring.is_known = True
            ring.leases.is_crowded |= self._longest > 0
            ring.leases.longest = max(ring.leases.longest, self._longest)
            ring.leases.doubted_until = max(ring.leases.doubted_until, self._guests_until)
        if ring.leases.namespaces != frozenset(namespaces):
            ring.is_stale = True
            for ref in ring.leases.live_in(namespaces):
                del self._places[ref]

    def replace(self, leases: Iterable[Lease], at: float) -> frozenset[RingName]:
        """Replace all Leases by a new list, and return the rings that can be affected."""
        return frozenset().union(*self.replacing(leases, at))

    def replacing(self, leases: Iterable[Lease], at: float) -> Iterator[frozenset[RingName]]:
        """Do the same in pieces; in between, other tasks can run but must not write.

        Events since the last list can have been missed, so a Lease that is gone counts as renewed
        until now.
        """
        for ring in self._rings.values():
            ring.leases.begin_list()
        self._longest = 0.0
        present = {lease.metadata.ref: lease for lease in leases}
        for ref in [ref for ref in self._places if ref not in present]:
            yield self._leave(ref, at, renewed=at)
        for number, lease in enumerate(present.values()):
            affected = self.see(lease, at)
            if affected or number % PIECE == 0:
                yield affected
        for name, ring in list(self._rings.items()):
            if ring.leases.end_list(at):
                ring.is_stale = True
                yield frozenset({name})

    def renew(self, lease: Lease, at: float) -> bool:
        """Record a Lease if it was only renewed, and return whether it was.

        If it was not, call `see`.  Nearly every event of a watch is such a renewal, and changes
        nothing else.
        """
        ref = lease.metadata.ref
        ring = self._rings.get(self._places.get(ref, RingName("")))
        return (
            ring is not None and not ring.takes_for_gone(ref.name) and ring.leases.renew(lease, at)
        )

    def see(self, lease: Lease, at: float) -> frozenset[RingName]:
        """Record a Lease as it is now, and return the rings whose members can have changed."""
        name, ref = ring_of(lease), lease.metadata.ref
        moved = self._places.get(ref, name) != name
        left = self._leave(ref, at) if moved else frozenset[RingName]()
        ring = self._rings.get(name)
        if ring is None or (not ring.is_known and ref not in self._places):
            if self._count_guests() >= MAX_GUESTS:
                if not is_given_up(lease):
                    self._longest = max(self._longest, stops_after(lease))
                return left
            ring = self._rings.setdefault(name, _Ring())
        before = ring.leases.get(ref)
        known, was_crowded = judged(lease, before, at), ring.leases.is_crowded
        is_news = before is None or is_another(before, known)
        if is_held(lease):
            is_news |= ring.leases.departed.pop(ref, None) is not None
        evicted = self._keep(name, ring, known)
        if evicted == ref:
            is_news = before is not None
        if is_news or evicted not in {None, ref} or ring.leases.is_crowded != was_crowded:
            ring.is_stale = True
            left |= {name}
        if not is_given_up(lease) and ring.leases.counts(ref) and ring.takes_for_gone(ref.name):
            ring.back.add(ref.name)
        return left

    def forget(self, lease: Lease, at: float) -> frozenset[RingName]:
        """Record that the Lease is gone: deleted, or without its ring label."""
        return self._leave(lease.metadata.ref, at)

    def note_outage(self, begin: float, end: float) -> None:
        """Record a span of time in which no renewal could be seen.

        Otherwise, shards that could not renew during an outage of the API server would count as
        dead as soon as it is back.
        """
        self._outages = self._outages.noted(begin, end)

    def observed_leases(self, ring: RingName) -> list[ObservedLease]:
        """Return the ring's Leases as observed, by namespace and name."""
        found = self._rings.get(ring)
        seen = (self._adjusted(known) for known in (found.leases if found is not None else ()))
        return sorted(seen, key=lambda s: s.lease.metadata.ref)

    def keeps(self, ref: ObjectRef) -> bool:
        """Return whether a Lease is kept."""
        return ref in self._places

    def observed(self, ref: ObjectRef) -> ObservedLease | None:
        """Return one Lease as observed, None if it is not kept; outages are subtracted."""
        place = self._places.get(ref)
        known = None if place is None else self._rings[place].leases.get(ref)
        return None if known is None else self._adjusted(known)

    def is_back(self, ring: RingName, shard: ShardName) -> bool:
        """Return whether a shard that was gone in the ring's last members might work by now."""
        found = self._rings.get(ring)
        return found is not None and shard in found.back

    def members(
        self,
        ring: RingName,
        at: float,
        *,
        namespaces: Collection[str] = (),
        before: Members | None = None,
    ) -> Members:
        """Return the members of `ring` at `at`: `before` if nothing has changed.

        Args:
            ring: Its name.
            at: Monotonic seconds.
            namespaces: The namespaces of its shards; empty: all.
            before: The ring's members until now.  If `namespaces` no longer include one of them,
                its objects are drained; forged Leases in other namespaces have no effect.
        """
        self.expect(ring, namespaces)
        found = self._rings[ring]
        if before is not None and found.still_has(before, at):
            return before
        if at >= self._strangers_until:
            found.leases.prune(at)
        found.members = members_of(
            found.leases, at, strangers_until=self._strangers_until, before=before
        )
        found.is_stale, found.leases.is_judged = False, True
        found.valid_until = min(found.next_edge(at), self._end_of_doubt(at))
        found.back.clear()
        return found.members

    def next_change(self, at: float) -> float | None:
        """Return when a standing changes only because time passes, None if never."""
        edges = (ring.next_edge(at) for ring in self._rings.values())
        edge = min(self._end_of_doubt(at), min(edges, default=inf))
        return None if edge == inf else edge

    def due(self, since: float, at: float) -> frozenset[RingName]:
        """Return the rings in which a standing changed after `since` only because time passed."""
        for_all = self._end_of_doubt(since) <= at
        return frozenset(n for n, r in self._rings.items() if for_all or r.next_edge(since) <= at)

    def absent(self, ring: RingName, shard: ShardName, at: float) -> None:
        """Record that the API server showed no held Lease of an unknown shard of a known ring.

        If the ring is crowded, its Lease can have been forgotten, and deleted a moment ago.
        """
        leases = self._rings[ring].leases
        if leases.is_crowded:
            self._depart(ring, shard, at + leases.longest)

    def returned(self, ring: RingName, shard: ShardName, at: float) -> None:
        """Record that the API server showed a held Lease of a shard that is unknown or gone.

        The ring is known.  The watch is late, or there was no room for the Lease.
        """
        self._depart(ring, shard, at + UNKNOWN_SILENCE)

    def _depart(self, name: RingName, shard: ShardName, until: float) -> None:
        ring = self._rings[name]
        ring.leases.depart(ObjectRef(min(ring.leases.namespaces, default=""), shard), until)
        ring.is_stale = True

    def _count_guests(self) -> int:
        """Return how many Leases of unknown rings are kept."""
        return sum(len(ring.leases) for ring in self._rings.values() if not ring.is_known)

    def _end_of_doubt(self, at: float) -> float:
        """Return when unknown shards will count as gone, inf if they already do."""
        return self._strangers_until if self._strangers_until > at else inf

    def _adjusted(self, known: Known) -> ObservedLease:
        observed = known.observed
        since = self._outages.put_off(observed.since)
        return observed if since == observed.since else observed.anew(since)

    def _keep(self, name: RingName, ring: _Ring, known: Known) -> ObjectRef | None:
        """Keep a Lease, and return the Lease that is dropped instead, if any."""
        self._places[known.lease.metadata.ref] = name
        evicted = ring.leases.keep(known)
        if evicted is not None:
            self._places.pop(evicted, None)
        return evicted

    def _leave(
        self, ref: ObjectRef, at: float, renewed: float | None = None
    ) -> frozenset[RingName]:
        """Remember until when the shard of a Lease that left its ring might work."""
        name = self._places.pop(ref, None)
        if name is None:
            return frozenset()
        ring = self._rings[name]
        known = ring.leases.remove(ref)
        ring.is_stale = True
        until = self._outages.put_off(known.observed.since if renewed is None else renewed)
        if not is_given_up(known.lease):
            until += stops_after(known.lease)
        if ring.is_known:
            # If the Lease was recreated and never held, the wait for the old one is not shortened.
            ring.leases.depart(ref, until)
        else:
            self._guests_until = max(self._guests_until, until)
        if not ring.is_known and not len(ring.leases):
            del self._rings[name]
        return frozenset({name})


def is_another(before: Known, known: Known) -> bool:
    """Return whether a Lease now describes its shard differently, or gives it another standing."""
    was, is_ = before.shard, known.shard
    if was != is_ or (was.ready, was.since, was.problem) != (is_.ready, is_.since, is_.problem):
        return True
    return standing_by(before.lease, before.problem) != standing_by(known.lease, known.problem)

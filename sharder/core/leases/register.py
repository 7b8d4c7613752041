"""The Leases of all rings as this process has seen them, and the members of the rings.

This module keeps everything that the standing of a shard depends on: the Leases as last seen, and
those that were deleted.  It has no clock: each call passes the time in monotonic seconds.
"""

from collections.abc import Collection, Iterable, Set
from dataclasses import replace
from math import inf

from sharder.core.api.lease import Lease
from sharder.core.api.meta import is_older
from sharder.core.leases.membership import Members, ring_of
from sharder.core.leases.ring_leases import UNKNOWN_SILENCE, RingLeases
from sharder.core.leases.state import ObservedLease, is_given_up, stops_after
from sharder.core.leases.validity import by_age
from sharder.core.names import ObjectRef, RingName, ShardName


class Membership:
    """The Leases of all rings as this process has seen them; changed only by its methods."""

    def __init__(self, started: float) -> None:
        """Remember when this process began to watch."""
        self._places: dict[ObjectRef, RingLeases] = {}
        self._rings: dict[RingName, RingLeases] = {}
        self._guests = RingLeases(self._places)
        """The Leases of all rings that do not exist yet."""
        self._blind = 0.0
        """The seconds of all outages.  `since` of a kept Lease is the time minus these, so that an
        outage never counts as time without a renewal."""
        self._last_outage = -inf, -inf
        self.begin(started)

    def begin(self, at: float) -> None:
        """Assume that shards that were never seen might have renewed until `at`."""
        self._strangers_until = at + UNKNOWN_SILENCE

    def expect(self, name: RingName, namespaces: Collection[str]) -> None:
        """Record that a ring exists, and the namespaces of its shards; empty: all."""
        ring, guests = self._rings.get(name), self._guests
        if ring is None:
            ring = self._rings[name] = RingLeases(self._places)
            ring.longest = guests.longest
            ring.doubted_until = max((guests.doubted_until, *guests.departed.values()))
            for known in [k for k in guests.known.values() if ring_of(k.lease) == name]:
                guests.forget(known.lease.metadata.ref)
                ring.keep(known, known.since)
        ring.live_in(namespaces)

    def replace(self, leases: Iterable[Lease], at: float) -> frozenset[RingName]:
        """Replace all Leases by a new list, and return the rings that can be affected.

        Events since the last list can have been missed, so a Lease that is gone counts as renewed
        until now, also one that was given up: its shard can have taken it again.
        """
        self._guests.begin_list(at)
        affected = {name for name, ring in self._rings.items() if ring.begin_list(at)}
        present = {lease.metadata.ref: lease for lease in sorted(leases, key=by_age)}
        for ref in [ref for ref in self._places if ref not in present]:
            affected |= self.forget(ref, renewed=at)
        for lease in present.values():
            affected |= self._see(lease, at) or set()
        return frozenset(affected)

    def see(self, lease: Lease, at: float) -> Set[RingName] | None:
        """Record a Lease as it is now, and return the rings whose members can have changed.

        None stands for a mere renewal, as nearly every event of a watch is: nothing else changes,
        and for a state before one that the API server has answered.
        """
        ref, version = lease.metadata.ref, lease.metadata.resource_version
        place = self._places.get(ref)
        if place is not None and is_older(
            version, than=place.known[ref].lease.metadata.resource_version
        ):
            return None
        return self._see(lease, at)

    def _see(self, lease: Lease, at: float) -> Set[RingName] | None:
        name, ref = ring_of(lease), lease.metadata.ref
        place = self._places.get(ref)
        affected = frozenset[RingName]()
        if place is not None and ring_of(place.known[ref].lease) != name:
            affected = self.forget(ref)
        ring, seeing = self._rings.get(name, self._guests), at - self._blind
        before = ring.known.get(ref)
        now = ObservedLease(lease, seeing) if before is None else before.then(lease, seeing)
        if before is not None and before.is_merely_renewed(lease, seeing):
            ring.known[ref] = now
            return None
        if ring.keep(now, at):
            affected |= {name} & self._rings.keys()
        return affected

    def forget(self, ref: ObjectRef, renewed: float | None = None) -> frozenset[RingName]:
        """Record that a Lease is gone: deleted, or without its ring label.

        Its shard might have worked until `renewed`, if no watch showed the deletion: that can be
        late, or know nothing of a restore of etcd.  Returns the rings that can be affected.
        """
        ring = self._places.get(ref)
        if ring is None:
            return frozenset()
        observed = ring.known[ref]
        until = observed.since + self._blind if renewed is None else renewed
        if not is_given_up(observed.lease):
            until += stops_after(observed.lease)
        elif renewed is not None:
            until += UNKNOWN_SILENCE
        ring.leave(ref, until)
        return frozenset({ring_of(observed.lease)} & self._rings.keys())

    def note_outage(self, begin: float, end: float) -> None:
        """Record a span of time in which no renewal could be seen.

        Otherwise, shards that could not renew during an outage of the API server would count as
        dead as soon as it is back.  A span that overlaps the last one only extends it.
        """
        first, last = self._last_outage
        if begin > last:
            first, last = begin, begin
        self._blind += max(0.0, end - last) + max(0.0, first - begin)
        self._last_outage = min(first, begin), max(last, end)

    def refs(self, ring: RingName) -> list[ObjectRef]:
        """Return which Leases of a ring are kept."""
        known = self._rings.get(ring, self._guests).known
        return [ref for ref, each in known.items() if ring_of(each.lease) == ring]

    def observed(self, ref: ObjectRef) -> ObservedLease | None:
        """Return one Lease as observed, None if it is not kept; outages are subtracted."""
        if ref not in self._places:
            return None
        known = self._places[ref].known[ref]
        return replace(known, since=known.since + self._blind)

    def is_back(self, ring: RingName, shard: ShardName) -> bool:
        """Return whether a shard that was gone in the ring's last members might work by now."""
        found = self._rings.get(ring)
        return found is not None and shard in found.back

    def last_worked(self, ring: RingName, shard: ShardName) -> float | None:
        """Return when a shard that is gone was last known to work, None if this is unknown."""
        found = self._rings.get(ring)
        return None if found is None else max(found.last_worked(shard, self._blind), default=None)

    def members(self, ring: RingName, at: float, *, namespaces: Collection[str] = ()) -> Members:
        """Return the ring's members at `at` (monotonic): the same object until they change.

        `namespaces` are those of its shards; empty: all.
        """
        self.expect(ring, namespaces)
        return self._rings[ring].members(at, self._strangers_until)

    def next_change(self) -> float:
        """Return when a standing changes only because time passes, inf if never."""
        return min((ring.valid_until for ring in self._rings.values()), default=inf)

    def due(self, at: float) -> frozenset[RingName]:
        """Return the rings in which a standing has changed by `at`; each is returned once."""
        return frozenset(name for name, ring in self._rings.items() if ring.is_due(at))

    def answered(self, lease: Lease, at: float) -> Set[RingName]:
        """Record a Lease as the API server answered, and return the rings that can be affected.

        The watch can be late, or has shown already that the Lease is gone, or has no room for it:
        the shard of an unknown Lease might be working.
        """
        name, ref = ring_of(lease), lease.metadata.ref
        if ref in self._places:
            return self.see(lease, at) or set()
        if not is_given_up(lease):
            ring = self._rings.get(name, self._guests)
            ring.depart(ref, at + stops_after(lease))
            ring.back.add(ref.name)
        return {name} & self._rings.keys()

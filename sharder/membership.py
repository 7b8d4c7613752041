"""Who is on a ring, and from whom objects may be taken.

"Not available" is not enough to take an object away: a shard whose Lease was deleted by mistake
may be working on it.  So each shard has a standing, and this module keeps the little memory that
it takes to know it: what was last seen of Leases that are gone (docs/protocol.md, "When an object
may be taken from a shard").  No clock: every call is told when it happens, in monotonic seconds.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from sharder.api.lease import Lease
from sharder.leases import (
    DEFAULT_DURATION,
    Sighting,
    duration_of,
    is_given_up,
    is_held,
    problem_of,
)
from sharder.names import RING_LABEL, ObjectRef, RingName, ShardName
from sharder.placement.shards import Shard, shard_of
from sharder.roster import Roster, call_the_roll

UNKNOWN_SILENCE = 2 * DEFAULT_DURATION.total_seconds()
"""Seconds after our start in which a shard that we never saw may still be working."""


class Standing(Enum):
    """What may happen to the objects of a shard."""

    AVAILABLE = auto()
    """It owns objects and gets new ones."""
    LEAVING = auto()
    """It works, but its Lease is invalid: it is drained and gets nothing new."""
    MISSING = auto()
    """It may be working: it keeps what it has and gets nothing new."""
    GONE = auto()
    """It does not work any more: its objects may be taken at once."""


_BEST_FIRST = (Standing.AVAILABLE, Standing.LEAVING, Standing.MISSING, Standing.GONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """The standing of every shard of one ring at one moment."""

    standings: Mapping[ShardName, Standing]
    stranger: Standing
    """The standing of a shard of which nothing is known."""
    namespaces: Mapping[ShardName, str]
    """Where each shard's Lease lives, available or not; of several the one that is held."""
    shards: Mapping[ShardName, Shard] = field(default_factory=dict, compare=False)
    """What each says about itself, available or not; likewise."""
    roster: Roster = field(default_factory=lambda: call_the_roll((), ()), compare=False)
    """The Leases that they were judged by; what changes no standing makes no difference."""

    @property
    def available(self) -> frozenset[ShardName]:
        """The shards that own objects."""
        return frozenset(n for n, s in self.standings.items() if s is Standing.AVAILABLE)

    def standing_of(self, shard: ShardName) -> Standing:
        """Return the shard's standing, known or not."""
        return self.standings.get(shard, self.stranger)


class Membership:
    """The Leases of all rings as this process has seen them; changed only by its methods."""

    def __init__(self, started: float) -> None:
        """Remember when this process began to watch."""
        self._strangers_until = started + UNKNOWN_SILENCE
        self._sightings: dict[ObjectRef, Sighting] = {}
        self._shards: dict[ObjectRef, Shard] = {}
        """What each Lease that is seen says of its shard."""
        self._departed: dict[tuple[RingName, ObjectRef], float] = {}

    def replace(self, leases: Iterable[Lease], at: float) -> frozenset[RingName]:
        """Take `leases` as all there are; return the rings that may be affected.

        What happened since the last list may have gone unseen, so a Lease that is gone counts as
        renewed until now.
        """
        present = {lease.metadata.ref: lease for lease in leases}
        gone = [s.lease for ref, s in self._sightings.items() if ref not in present]
        self._sightings |= {lease.metadata.ref: Sighting(lease, at) for lease in gone}
        affected = [self.forget(lease, at) for lease in gone]
        affected += [self.see(lease, at) for lease in present.values()]
        return frozenset().union(*affected)

    def see(self, lease: Lease, at: float) -> frozenset[RingName]:
        """Take note of a Lease as it is now; return the rings whose members may have changed.

        A mere renewal, which is nearly every call, affects none.
        """
        ring, before = ring_of(lease), self._sightings.get(lease.metadata.ref)
        is_news = self._describe(lease, before)
        if is_held(lease):
            self._departed.pop((ring, lease.metadata.ref), None)
        if before is None:
            self._sightings[lease.metadata.ref] = Sighting(lease, at)
            return frozenset({ring})
        self._sightings[lease.metadata.ref] = before.then(lease, at)
        if ring_of(before.lease) != ring:
            self._depart(before)
            return frozenset({ring, ring_of(before.lease)})
        then, now = (_standing(of, problem_of(of)) for of in (before.lease, lease))
        return frozenset({ring}) if is_news or then != now else frozenset()

    def forget(self, lease: Lease, at: float) -> frozenset[RingName]:
        """Take note that the Lease is gone: deleted, or without its ring label."""
        before = self._sightings.pop(lease.metadata.ref, None)
        self._shards.pop(lease.metadata.ref, None)
        if before is not None:
            self._depart(before)
        self._prune(at)
        return frozenset({ring_of(before.lease if before is not None else lease)})

    def restart_observation(self, at: float) -> None:
        """Begin anew to observe every Lease: the watch was broken, silence was ours.

        Without this, shards that could not renew during an outage of the API server would be
        taken for dead the moment it is back.
        """
        self._sightings = {ref: s.anew(at) for ref, s in self._sightings.items()}

    def sightings(self, ring: RingName) -> list[Sighting]:
        """Return what was seen of the ring's Leases, by namespace and name."""
        seen = (s for s in self._sightings.values() if ring_of(s.lease) == ring)
        return sorted(seen, key=lambda s: s.lease.metadata.ref)

    def sighting(self, ref: ObjectRef) -> Sighting | None:
        """Return what was seen of one Lease."""
        return self._sightings.get(ref)

    def members(
        self,
        ring: RingName,
        at: float,
        *,
        namespaces: Collection[str] = (),
        before: Members | None = None,
    ) -> Members:
        """Return every known shard's standing in `ring` at `at`.

        Args:
            ring: Its name.
            at: Monotonic seconds.
            namespaces: Where its shards may live; none given: anywhere.
            before: The ring's members until now.  Whoever was one of them and lives elsewhere by
                now is asked to let go; what others forge elsewhere changes nothing.
        """
        roster = call_the_roll((s.lease for s in self.sightings(ring)), namespaces)
        own = {lease.metadata.name for lease in roster.leases}
        outcast = [
            lease
            for lease in roster.foreign
            if is_held(lease) and lease.metadata.name not in own and _was_there(lease, before)
        ]
        departed = [
            (ref.name, Standing.MISSING if at < until else Standing.GONE)
            for (of, ref), until in self._departed.items()
            if of == ring and (not namespaces or ref.namespace in namespaces)
        ]
        present = [
            (lease.metadata.name, _standing(lease, roster.problems.get(lease.metadata.ref)))
            for lease in (*roster.leases, *outcast)
        ]
        standings = _best(departed + present)
        standings |= dict.fromkeys(roster.twins, Standing.MISSING)
        return Members(
            standings=standings,
            stranger=Standing.MISSING if at < self._strangers_until else Standing.GONE,
            namespaces={
                ShardName(lease.metadata.name): lease.metadata.namespace
                for lease in sorted((*outcast, *roster.leases), key=is_held)
            },
            shards={
                ShardName(lease.metadata.name): self._shards[lease.metadata.ref]
                for lease in sorted(roster.leases, key=is_held)
            },
            roster=roster,
        )

    def next_change(self, at: float) -> float | None:
        """Return when a standing changes by the passing of time alone, None if never."""
        edges = [self._strangers_until, *self._departed.values()]
        return min((edge for edge in edges if edge > at), default=None)

    def _describe(self, lease: Lease, before: Sighting | None) -> bool:
        """Take note of what the Lease says of its shard; tell whether that is news.

        A mere renewal says it in the same words, so that nothing has to be read again.
        """
        if before is not None and _says_the_same(before.lease, lease):
            return False
        ref = lease.metadata.ref
        was, is_ = self._shards.get(ref), shard_of(lease)
        self._shards[ref] = is_
        beside = is_.ready, is_.since
        return was is None or was != is_ or (was.ready, was.since) != beside

    def _depart(self, sighting: Sighting) -> None:
        lease = sighting.lease
        until = sighting.since
        if not is_given_up(lease):
            until += 2 * duration_of(lease).total_seconds()
        # A Lease that was made anew and never held does not shorten the wait for the old one.
        place = ring_of(lease), lease.metadata.ref
        self._departed[place] = max(until, self._departed.get(place, until))

    def _prune(self, at: float) -> None:
        """Forget departures that a stranger's standing describes as well, to bound memory."""
        if at >= self._strangers_until:
            self._departed = {k: until for k, until in self._departed.items() if until > at}


def ring_of(lease: Lease) -> RingName:
    """Return the ring that the Lease's label names, empty if there is none."""
    return RingName(lease.metadata.label(RING_LABEL))


def _best(found: Iterable[tuple[str, Standing]]) -> dict[ShardName, Standing]:
    """Return each name's best standing: a name may stand in several namespaces."""
    best: dict[ShardName, Standing] = {}
    for name, standing in found:
        shard = ShardName(name)
        best[shard] = min(standing, best.get(shard, standing), key=_BEST_FIRST.index)
    return best


def _says_the_same(before: Lease, lease: Lease) -> bool:
    then, now = before.metadata, lease.metadata
    said = (then.labels, then.annotations, before.spec.acquire_time)
    return said == (now.labels, now.annotations, lease.spec.acquire_time)


def _was_there(lease: Lease, before: Members | None) -> bool:
    """Tell whether the Lease was a member's; when nothing is known yet, it may have been."""
    name = ShardName(lease.metadata.name)
    return before is None or before.namespaces.get(name) == lease.metadata.namespace


def _standing(lease: Lease, problem: str | None) -> Standing:
    if is_given_up(lease):
        return Standing.GONE
    if not is_held(lease):
        return Standing.MISSING
    return Standing.AVAILABLE if problem is None else Standing.LEAVING

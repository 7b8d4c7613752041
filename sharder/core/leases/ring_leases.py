"""The Leases of one ring as this process has seen them, bounded in number, and its members.

A client that can write Leases can label any number of them with a ring's name.  So a bounded
number is kept, those of shards apart from all others, and some that were deleted.  A shard whose
Lease has no room shows that it works by its renewals: for two durations after each of them, the
ring is *in doubt*, and no shard without a known Lease counts as gone.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from math import inf
from typing import Final

from sharder.core.api.lease import Lease
from sharder.core.leases.membership import Members, Standing, standing_by
from sharder.core.leases.shard import Shard, shard_of
from sharder.core.leases.state import (
    DEFAULT_DURATION,
    SILENT_DURATIONS,
    ObservedLease,
    is_given_up,
    is_held,
    problem_of,
    stops_after,
)
from sharder.core.leases.validity import MAX_LEASES, classify
from sharder.core.names import ObjectRef, ShardName

MAX_KEPT: Final = 2 * MAX_LEASES
"""Maximum Leases of one ring that shards hold, and as many others."""

UNKNOWN_SILENCE: Final = SILENT_DURATIONS * DEFAULT_DURATION.total_seconds()
"""Seconds for which a shard might be working of whose Lease nothing is known."""


class RingLeases:
    """The kept Leases of one ring, and what follows from them."""

    def __init__(self, places: "dict[ObjectRef, RingLeases]") -> None:
        """Start empty; `places` has the place of each kept Lease, for all rings together."""
        self._places = places
        self.known: dict[ObjectRef, ObservedLease] = {}
        self.departed: dict[ObjectRef, float] = {}
        """Leases that were deleted or dropped, and until when their shards might have worked."""
        self.doubted_until = -inf
        """Until when a shard without a known Lease might work."""
        self.longest = 0.0
        """Twice the longest duration of a Lease that had no room since the last list began."""
        self.back: set[str] = set()
        """Names that were gone when the members were computed, and whose shards might work."""
        self.valid_until = inf
        """When the members change only because time passes."""
        self._members: Members | None = None
        self._is_stale = True
        """Whether anything has changed since the members were computed."""
        self._shards: dict[ObjectRef, Shard] = {}
        """How each kept Lease describes its shard."""
        self._namespaces: frozenset[str] = frozenset()
        """The namespaces of the ring's shards; empty: all."""
        self._former: set[ObjectRef] = set()
        """Leases in other namespaces whose shards can own objects of the ring."""
        self._of_shards = set[ObjectRef]()
        """The kept Leases that make shards."""

    def live_in(self, namespaces: Collection[str]) -> None:
        """Set the namespaces of the ring's shards; its shards in others can still own objects."""
        if self._namespaces == frozenset(namespaces):
            return
        counted = [ref for ref in self.known if self._counts(ref)]
        self._namespaces, self._is_stale = frozenset(namespaces), True
        self._former = set(self._working_outside(counted))
        self._of_shards = {ref for ref, x in self.known.items() if self._makes_shard(x.lease)}

    def keep(self, now: ObservedLease, at: float) -> bool:
        """Keep a Lease as observed at `at`; return whether the members can have changed."""
        lease, ref = now.lease, now.lease.metadata.ref
        if not is_given_up(lease) and self._counts(ref) and self._takes_for_gone(ref.name):
            self.back.add(ref.name)
        if not self._has_room(lease):
            return self._leave_out(lease, at)
        before = _facts(self.known[ref].lease, self._shards[ref]) if ref in self.known else None
        is_back = is_held(lease) and self.departed.pop(ref, None) is not None
        self.known[ref], self._places[ref], self._shards[ref] = now, self, shard_of(lease)
        (self._of_shards.add if self._makes_shard(lease) else self._of_shards.discard)(ref)
        has_changed = is_back or before != _facts(lease, self._shards[ref])
        self._is_stale |= has_changed
        return has_changed

    def leave(self, ref: ObjectRef, until: float) -> None:
        """Forget a Lease that was deleted, and remember until when its shard might work."""
        if self._counts(ref):
            # If the Lease was recreated and never held, the wait for the old one is not shortened.
            self.depart(ref, until)
        self.forget(ref)

    def depart(self, ref: ObjectRef, until: float) -> None:
        """Remember until when a shard might work; an earlier time does not replace a later one."""
        self.departed[ref] = max(until, self.departed.get(ref, -inf))
        self._is_stale = True
        if len(self.departed) > MAX_LEASES:
            first = min(self.departed, key=self.departed.__getitem__)
            self._doubt(self.departed.pop(first))

    def begin_list(self, at: float) -> bool:
        """Begin a complete list, seen at `at`; return whether the ring is in doubt.

        A Lease that had no room and was deleted unseen might have been renewed until `at`.
        """
        if self.longest:
            self._doubt(at + self.longest)
            self.longest = 0.0
        return at < self.doubted_until

    def is_due(self, at: float) -> bool:
        """Return, once, whether the members have changed by `at` only because time passes."""
        if at < self.valid_until:
            return False
        self.valid_until, self._is_stale = inf, True
        return True

    def members(self, at: float, strangers_until: float) -> Members:
        """Return the members at `at`: the same object until something has changed.

        Until `strangers_until`, shards that were never seen might be working.
        """
        if self._members is not None and not self._is_stale and at < self.valid_until:
            return self._members
        if self._members is None:
            # Leases outside might be those of members that an earlier process knew.
            inside = {ref.name for ref in self.known if self._counts(ref)}
            others = [ref for ref in self.known if ref.name not in inside]
            self._former.update(self._working_outside(others))
        until = max(self.doubted_until, strangers_until)
        self._members = self._judge(at, _standing(at, until))
        edges = (*self.departed.values(), until, self.doubted_until)
        self.valid_until = min((edge for edge in edges if edge > at), default=inf)
        self._is_stale = False
        self.back.clear()
        return self._members

    def _judge(self, at: float, stranger: Standing) -> Members:
        validity = classify((each.lease for each in self.known.values()), self._namespaces)
        former = (self.known[ref].lease for ref in self._former)
        held_last = sorted((*filter(is_held, former), *validity.leases), key=is_held)
        standings = self._standings(validity.problems, at, stranger)
        return Members(
            standings=standings | dict.fromkeys(validity.duplicate_names, Standing.MISSING),
            stranger=stranger,
            namespaces={ShardName(x.metadata.name): x.metadata.namespace for x in held_last},
            shards={
                ShardName(lease.metadata.name): self._shards[lease.metadata.ref]
                for lease in sorted(validity.leases, key=is_held)
            },
            validity=validity,
        )

    def last_worked(self, name: str, blind: float) -> Iterator[float]:
        """Yield when a shard that is gone was last known to work, by each of its Leases.

        `blind` are the seconds of all outages.
        """
        if not self._takes_for_gone(name):
            return  # `departed` has times to come
        yield from (until for ref, until in self.departed.items() if ref.name == name)
        for ref, seen in self.known.items():
            if ref.name == name and is_given_up(seen.lease) and seen.worked is not None:
                yield seen.worked + blind

    def _standings(
        self, problems: Mapping[ObjectRef, str], at: float, stranger: Standing
    ) -> dict[ShardName, Standing]:
        """Return the best standing of each name by its Leases, deleted ones included.

        While the ring is in doubt, a Lease that was given up or deleted says nothing: a shard of
        its name might hold another one, in another namespace.
        """
        departed = [(ref.name, _standing(at, until)) for ref, until in self.departed.items()]
        found = [each for each in departed if Standing.MISSING in {each[1], stranger}]
        found += (
            (ref.name, standing_by(each.lease, problems.get(ref)))
            for ref, each in self.known.items()
            if self._counts(ref)
        )
        is_doubtful, best = at < self.doubted_until, dict[ShardName, Standing]()
        for name, standing in found:
            if not (is_doubtful and standing is Standing.GONE):
                shard = ShardName(name)
                best[shard] = min(standing, best.get(shard, standing))
        return best

    def _takes_for_gone(self, name: str) -> bool:
        members = self._members
        return members is not None and members.standing_of(ShardName(name)) is Standing.GONE

    def _working_outside(self, refs: Iterable[ObjectRef]) -> Iterator[ObjectRef]:
        """Yield the Leases outside the ring's namespaces under which a shard might work."""
        for ref in refs:
            if not self._is_inside(ref) and not is_given_up(self.known[ref].lease):
                yield ref

    def _has_room(self, lease: Lease) -> bool:
        ref = lease.metadata.ref
        of_shards = len(self._of_shards) - (ref in self._of_shards)
        others = len(self.known) - (ref in self.known) - of_shards
        return (of_shards if self._makes_shard(lease) else others) < MAX_KEPT

    def _leave_out(self, lease: Lease, at: float) -> bool:
        """Note a Lease without room; return whether the members can have changed."""
        ref = lease.metadata.ref
        has_changed = ref in self.known
        if has_changed:
            self.forget(ref)
        if self._counts(ref) and not is_given_up(lease):
            has_changed |= at >= self.doubted_until
            self.longest = max(self.longest, stops_after(lease))
            self._doubt(at + stops_after(lease))
        return has_changed

    def _doubt(self, until: float) -> None:
        self.doubted_until, self._is_stale = max(self.doubted_until, until), True

    def forget(self, ref: ObjectRef) -> None:
        """Forget a Lease as if it had never been seen."""
        del self.known[ref], self._places[ref], self._shards[ref]
        self._of_shards.discard(ref)
        self._former.discard(ref)
        self._is_stale = True

    def _is_inside(self, ref: ObjectRef) -> bool:
        return not self._namespaces or ref.namespace in self._namespaces

    def _counts(self, ref: ObjectRef) -> bool:
        """Return whether a shard with this Lease can own objects of the ring."""
        return self._is_inside(ref) or ref in self._former

    def _makes_shard(self, lease: Lease) -> bool:
        return is_held(lease) and problem_of(lease, self._namespaces) is None


def _standing(at: float, until: float) -> Standing:
    return Standing.MISSING if at < until else Standing.GONE


def _facts(lease: Lease, shard: Shard) -> tuple[object, ...]:
    """Return everything that a Lease says about its shard."""
    standing = standing_by(lease, problem_of(lease))
    return standing, shard, shard.ready, shard.since, shard.problem

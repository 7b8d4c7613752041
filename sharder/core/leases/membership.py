"""Who is on a ring, and from whom objects may be taken; pure.

"Not available" is not enough to take an object away: a shard whose Lease was deleted by mistake
may be working on it.  So each shard has a standing (docs/protocol.md, "When an object may be taken
from a shard").
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from sharder.core.api.lease import Lease
from sharder.core.leases.index import Known, RingLeases
from sharder.core.leases.shard import Shard
from sharder.core.leases.state import is_given_up, is_held
from sharder.core.leases.validity import LeaseValidity, classify
from sharder.core.names import RING_LABEL, RingName, ShardName


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
    roster: LeaseValidity = field(default_factory=lambda: classify((), ()), compare=False)
    """The Leases that they were judged by; what changes no standing makes no difference."""

    @property
    def available(self) -> frozenset[ShardName]:
        """The shards that own objects."""
        return frozenset(n for n, s in self.standings.items() if s is Standing.AVAILABLE)

    def standing_of(self, shard: ShardName) -> Standing:
        """Return the shard's standing, known or not."""
        return self.standings.get(shard, self.stranger)


def members_of(
    leases: RingLeases, at: float, *, strangers_until: float, before: Members | None
) -> Members:
    """Return the members that a ring's Leases make at `at`, as in `Membership.members`."""
    known = {each.lease.metadata.ref: each for each in leases}
    roster = classify(
        (known[ref].lease for ref in sorted(known)),
        leases.namespaces,
        lambda lease: known[lease.metadata.ref].problem,
    )
    own = {lease.metadata.name for lease in roster.leases}
    outcast = [
        lease
        for lease in roster.foreign
        if is_held(lease) and lease.metadata.name not in own and _was_there(lease, before)
    ]
    is_doubtful = leases.is_crowded or at < leases.doubted_until
    present = [
        (
            lease.metadata.name,
            _standing_of(known[lease.metadata.ref], roster, is_doubtful=is_doubtful),
        )
        for lease in (*roster.leases, *outcast)
    ]
    standings = _best([*_departed(leases, at, is_doubtful=is_doubtful), *present])
    standings |= dict.fromkeys(roster.duplicate_names, Standing.MISSING)
    standings |= dict.fromkeys(map(ShardName, leases.ambiguous), Standing.MISSING)
    return Members(
        standings=standings,
        stranger=Standing.MISSING if is_doubtful or at < strangers_until else Standing.GONE,
        namespaces={
            ShardName(lease.metadata.name): lease.metadata.namespace
            for lease in sorted((*outcast, *roster.leases), key=is_held)
        },
        shards={
            ShardName(lease.metadata.name): known[lease.metadata.ref].shard
            for lease in sorted(roster.leases, key=is_held)
        },
        roster=roster,
    )


def _departed(
    leases: RingLeases, at: float, *, is_doubtful: bool
) -> Iterator[tuple[str, Standing]]:
    """Yield the standings of those whose Lease is gone, where more is known than of strangers."""
    for until, ref in leases.departed:
        if not leases.counts(ref):
            continue
        if at < until:
            yield ref.name, Standing.MISSING
        elif not is_doubtful:
            yield ref.name, Standing.GONE


def _standing_of(known: Known, roster: LeaseValidity, *, is_doubtful: bool) -> Standing:
    standing = standing_by(known.lease, roster.problems.get(known.lease.metadata.ref))
    if standing is Standing.GONE and is_doubtful and not known.worked:
        return Standing.MISSING  # the shard of that name may have held a Lease that was forgotten
    return standing


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


def _was_there(lease: Lease, before: Members | None) -> bool:
    """Tell whether the Lease was a member's; when nothing is known yet, it may have been."""
    name = ShardName(lease.metadata.name)
    return before is None or before.namespaces.get(name) == lease.metadata.namespace


def standing_by(lease: Lease, problem: str | None) -> Standing:
    """Return the standing that a Lease alone gives its shard."""
    if is_given_up(lease):
        return Standing.GONE
    if not is_held(lease):
        return Standing.MISSING
    return Standing.AVAILABLE if problem is None else Standing.LEAVING

"""What happened to a ring: the difference between the state last told and the present one.

So the told transitions add up to the shards of the ring, however seldom they are told.  A shard
counts until its objects can be taken, because a shard whose Lease was deleted might still be
working.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from sharder.core.leases.state import duration_of
from sharder.core.names import ShardName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.phases import ShardPhase, leases_of, phases_of

NAMED: Final = 3
"""Maximum shards that a sentence names; other shards are counted."""

Phases: TypeAlias = Mapping[ShardName, ShardPhase]
"""The shards of a ring that own objects or did, and those that have just ended."""


class Kind(StrEnum):
    """The kinds of transitions, the most important first; the value is the reason of the Event."""

    LOST = "ShardLost"
    MISSING = "ShardMissing"
    LEFT = "ShardLeft"
    JOINED = "ShardJoined"
    REBALANCED = "Rebalanced"
    LEADER = "LeaderElection"
    """It belongs to no ring; client-go uses the same reason."""

    @property
    def words(self) -> str:
        """The message of a log record, such as `shard lost` for `ShardLost`."""
        return "".join(f" {c.lower()}" if c.isupper() else c for c in self).strip()

    @property
    def is_warning(self) -> bool:
        """Whether a person should look at the ring."""
        return self in {Kind.LOST, Kind.MISSING}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """What happened to a ring."""

    kind: Kind
    shards: tuple[ShardName, ...] = ()
    available: int = 0
    """The number of available shards of the ring afterwards."""
    detail: str = ""
    """The result of a rebalancing run, or the identity of a leader."""

    @property
    def who(self) -> str:
        """The shards in words; empty if the transition is not about shards."""
        if len(self.shards) > NAMED:
            return f"{', '.join(self.shards[:NAMED])} and {len(self.shards) - NAMED} more"
        return " and ".join(filter(None, (", ".join(self.shards[:-1]), *self.shards[-1:])))


_SENTENCES: Final[Mapping[Kind, str]] = {
    Kind.LOST: "{who} lost: Lease expired or deleted; available shards: {available}",
    Kind.MISSING: "{who} missing: no Lease, but might be working, so the objects stay",
    Kind.LEFT: "{who} left; available shards: {available}",
    Kind.JOINED: "{who} joined; available shards: {available}",
    Kind.REBALANCED: "{detail}",
    Kind.LEADER: "{detail} became leader",
}


def sentence(of: Transition) -> str:
    """Return what happened, as the message of an Event."""
    who = f"{'shard' if len(of.shards) == 1 else 'shards'} {of.who}"
    return _SENTENCES[of.kind].format(who=who, available=of.available, detail=of.detail)


def present(phases: Phases) -> dict[ShardName, ShardPhase]:
    """Return the shards that work or might be working."""
    return {shard: phase for shard, phase in phases.items() if not phase.is_gone}


def phases_after(before: Phases, snapshot: RingSnapshot) -> dict[ShardName, ShardPhase]:
    """Return the present phases; `before` has the shards that were present.

    A shard without a Lease was lost if it was missing before, because a Lease that was deleted
    while it was held makes its shard missing first.
    """
    found = phases_of(snapshot.members, before)
    after = {shard: phase for shard, phase in found.items() if phase.owns or shard in before}
    for shard in before.keys() - after.keys():
        missed = before[shard] is ShardPhase.MISSING
        after[shard] = ShardPhase.LOST if missed else ShardPhase.LEFT
    return after


def silence_of(snapshot: RingSnapshot, shard: ShardName, phase: ShardPhase) -> float:
    """Return for how many seconds a shard that is gone had not renewed its Lease."""
    lease = leases_of(snapshot.members).get(shard)
    if phase is not ShardPhase.LOST or lease is None:
        return 0.0
    # We take a Lease over after this time without a renewal, and with this duration.
    return duration_of(lease).total_seconds()


def transitions(before: Phases, after: Phases) -> Iterator[Transition]:
    """Yield what happened since the shards of `before` were present."""
    stay = present(after)
    lost = {shard for shard in before if after[shard] is ShardPhase.LOST}
    changes = (
        (Kind.LOST, lost),
        (Kind.MISSING, {s for s in before if _begins_to_miss(before[s], after[s])}),
        (Kind.LEFT, before.keys() - stay.keys() - lost),
        (Kind.JOINED, stay.keys() - before.keys()),
    )
    available = sum(phase.owns for phase in after.values())
    for kind, shards in changes:
        if shards:
            yield Transition(kind=kind, shards=tuple(sorted(shards)), available=available)


def _begins_to_miss(before: ShardPhase, after: ShardPhase) -> bool:
    return after is ShardPhase.MISSING and before is not ShardPhase.MISSING

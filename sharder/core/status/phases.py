"""The phase of each shard of a ring, and what has happened when phases change.

A phase is the state of a shard in the words of docs/concepts.md.  A transition is the difference
between the phases last told and the present ones, so the told transitions add up to the shards of
the ring, however seldom they are told.  A shard counts until its objects can be taken, because a
shard whose Lease was deleted might still be working.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeAlias

from sharder.core.api.lease import Lease
from sharder.core.leases.membership import Members, Standing, standing_by
from sharder.core.leases.state import ShardState, is_held, problem_of, state_of, was_released
from sharder.core.names import ShardName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.texts import named


class ShardPhase(StrEnum):
    """What a shard does at present."""

    READY = "ready"
    LATE = "late"
    """It has not renewed its Lease in time; it keeps its objects."""
    LEAVING = "leaving"
    """Its Lease is invalid: its objects are drained."""
    MISSING = "missing"
    """It might be working, see `WHY_MISSING`: its objects stay until it has surely stopped."""
    LOST = "lost"
    """It stopped renewing, and the sharder took its Lease."""
    LEFT = "left"
    """It released its Lease."""

    @property
    def owns(self) -> bool:
        """Whether the objects on it have an available owner."""
        return self is ShardPhase.READY or self is ShardPhase.LATE

    @property
    def is_gone(self) -> bool:
        """Whether its objects are reassigned at once."""
        return self is ShardPhase.LOST or self is ShardPhase.LEFT


WHY_MISSING: Final = "no held Lease, or another shard of the same name"


def phases_of(members: Members, before: Collection[ShardName] = ()) -> dict[ShardName, ShardPhase]:
    """Return the phase of every shard that has a valid Lease or might be working.

    The shards of `before` might also be working, unless they are known to be gone.
    """
    leases = leases_of(members)
    present = {
        shard
        for shard in {*members.standings, *before}
        if members.standing_of(shard) is not Standing.GONE
    }
    late = {name for name, shard in members.shards.items() if not shard.ready}
    return {
        name: _phase(members.standing_of(name), leases.get(name), is_on_time=name not in late)
        for name in sorted({*leases, *present})
    }


def phase_of(lease: Lease, now: datetime, problem: str | None = None) -> ShardPhase:
    """Return the phase by one read of the Lease, whose times are those of the shard's clock.

    `problem` is why the ring ignores the Lease, if that is known.
    """
    is_on_time = state_of(lease, now) is ShardState.READY
    standing = standing_by(lease, problem or problem_of(lease))
    return _phase(standing, lease, is_on_time=is_on_time)


def leases_of(members: Members) -> dict[ShardName, Lease]:
    """Return the valid Lease of each shard; of several Leases, the held one."""
    valid = sorted(members.validity.valid, key=is_held)
    return {ShardName(lease.metadata.name): lease for lease in valid}


def _phase(standing: Standing, lease: Lease | None, *, is_on_time: bool) -> ShardPhase:
    match standing:
        case Standing.AVAILABLE:
            return ShardPhase.READY if is_on_time else ShardPhase.LATE
        case Standing.LEAVING:
            return ShardPhase.LEAVING
        case Standing.MISSING:
            return ShardPhase.MISSING
        case Standing.GONE:  # pragma: no branch: there is no other standing, as mypy checks
            has_left = lease is not None and was_released(lease)
            return ShardPhase.LEFT if has_left else ShardPhase.LOST


Phases: TypeAlias = Mapping[ShardName, ShardPhase]
"""The shards of a ring that own objects or did, and those that have just ended."""


class Kind(StrEnum):
    """The kinds of transitions, the most important first; the value is the reason of the Event."""

    LOST = "ShardLost"
    MISSING = "ShardMissing"
    LEFT = "ShardLeft"
    JOINED = "ShardJoined"
    REBALANCED = "Rebalanced"

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
    """The result of a rebalancing run."""

    @property
    def who(self) -> str:
        """The shards in words; empty if the transition is not about shards."""
        return named(self.shards)


_SENTENCES: Final[Mapping[Kind, str]] = {
    Kind.LOST: "{who} lost: Lease expired or deleted; available shards: {available}",
    Kind.MISSING: f"{{who}} missing: {WHY_MISSING}; might be working, so the objects stay",
    Kind.LEFT: "{who} left; available shards: {available}",
    Kind.JOINED: "{who} joined; available shards: {available}",
    Kind.REBALANCED: "{detail}",
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


def transitions(before: Phases, after: Phases) -> Iterator[Transition]:
    """Yield what happened since the shards of `before` were present."""

    def missing(phases: Phases) -> set[ShardName]:
        return {shard for shard in before if phases[shard] is ShardPhase.MISSING}

    stay = present(after)
    lost = {shard for shard in before if after[shard] is ShardPhase.LOST}
    changes = (
        (Kind.LOST, lost),
        (Kind.MISSING, missing(after) - missing(before)),
        (Kind.LEFT, before.keys() - stay.keys() - lost),
        (Kind.JOINED, stay.keys() - before.keys()),
    )
    available = sum(phase.owns for phase in after.values())
    for kind, shards in changes:
        if shards:
            yield Transition(kind=kind, shards=tuple(sorted(shards)), available=available)

"""What happened to a ring: the difference between the state last told and the present one.

So the told transitions add up to the shards of the ring, however seldom they are told.  A shard
counts until its objects can be taken, because a shard whose Lease was deleted might still be
working.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias

from sharder.core.api.ring import RingStatus
from sharder.core.leases.state import ShardState, duration_of
from sharder.core.names import ShardName
from sharder.core.plurals import counted
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.phases import ShardPhase, leases_of, phases_of

NAMED: Final = 3
"""Maximum shards that a sentence names; other shards are counted."""

Phases: TypeAlias = Mapping[ShardName, ShardPhase]
"""The shards of a ring that own objects or did, and those whose end was not told yet."""

_STORED: Final[Mapping[str, ShardPhase]] = {
    ShardState.READY: ShardPhase.READY,
    ShardState.EXPIRED: ShardPhase.LATE,
    ShardState.UNCERTAIN: ShardPhase.LATE,
}
"""The phases of shards that are not gone, by their states in the status."""


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
    objects: int | None = None
    """The number of objects of these shards, or of moves; None: unknown or not relevant."""
    available: int | None = None
    """The number of available shards of the ring afterwards; None: not relevant."""
    detail: str = ""
    """The result of a rebalancing run, the identity of a leader, or why a shard has left."""

    @property
    def is_warning(self) -> bool:
        """Whether a person should look at the ring."""
        return self.kind.is_warning or (self.kind is Kind.LEFT and bool(self.detail))

    @property
    def numbers(self) -> dict[str, int]:
        """All known numbers, as fields of a log record."""
        known = {
            "shards": len(self.shards) or None,
            "objects": self.objects,
            "available": self.available,
        }
        return {name: number for name, number in known.items() if number is not None}

    @property
    def who(self) -> str:
        """The shards in words; empty if the transition is not about shards."""
        if len(self.shards) > NAMED:
            return f"{', '.join(self.shards[:NAMED])} and {len(self.shards) - NAMED} more"
        return " and ".join(filter(None, (", ".join(self.shards[:-1]), *self.shards[-1:])))


_SENTENCES: Final[Mapping[Kind, str]] = {
    Kind.LOST: "{who} {was} lost{having}: Lease expired or deleted{rest}",
    Kind.MISSING: "{who} {are} missing: no Lease, but might be working, so the objects stay",
    Kind.LEFT: "{who} {has} left{having}{rest}{why}",
    Kind.JOINED: "{who} {has} joined{rest}",
    Kind.REBALANCED: "{detail}",
    Kind.LEADER: "{detail} became leader",
}


def sentence(of: Transition) -> str:
    """Return what happened, as the message of an Event."""
    is_one = len(of.shards) == 1
    return _SENTENCES[of.kind].format(
        who=f"shard {of.who}" if is_one else f"shards {of.who}",
        was="was" if is_one else "were",
        has="has" if is_one else "have",
        are="is" if is_one else "are",
        having="" if of.objects is None else f" ({counted(of.objects, 'object')})",
        rest="" if of.available is None else f"; {_available(of.available)}",
        detail=of.detail,
        why=of.detail and f": {of.detail}",
    )


def present(phases: Phases) -> frozenset[ShardName]:
    """Return the shards that work or might be working."""
    return frozenset(shard for shard, phase in phases.items() if not phase.is_gone)


def phases_after(before: Phases, snapshot: RingSnapshot) -> dict[ShardName, ShardPhase]:
    """Return the present phases; shards that `before` says have ended stay, unless they are back.

    A shard without a Lease was lost if it was missing before, because a Lease that was deleted
    while it was held makes its shard missing first.
    """
    found = phases_of(snapshot.members, present(before))
    shown = {shard: p for shard, p in found.items() if p.owns or shard in before}
    for shard, phase in before.items():
        if phase.is_gone and (shard not in found or not found[shard].owns):
            shown[shard] = phase
        elif shard not in found:
            missed = phase is ShardPhase.MISSING
            shown[shard] = ShardPhase.LOST if missed else ShardPhase.LEFT
    return shown


def phases_stored(status: RingStatus, now: Phases) -> Phases:
    """Return the phases that the last leader reported.

    If the status does not list all shards, the shards of `now` count as known, so that their
    arrival is not told twice.
    """
    listed = status.shard_statuses
    known = {ShardName(s.name): _STORED[state] for s in listed if (state := s.state) in _STORED}
    is_partial = status.shard_statuses_truncated or (status.shards > 0 and not listed)
    return {**now, **known} if is_partial else known


def silence_of(snapshot: RingSnapshot, shard: ShardName, phase: ShardPhase) -> float:
    """Return for how many seconds a shard that is gone had not renewed its Lease."""
    lease = leases_of(snapshot.members).get(shard)
    if phase is not ShardPhase.LOST or lease is None:
        return 0.0
    # We take a Lease over after this time without a renewal, and with this duration.
    return duration_of(lease).total_seconds()


def transitions(
    before: Phases,
    after: Phases,
    objects: Mapping[ShardName, int] | None,
    unable: Mapping[ShardName, str] = MappingProxyType({}),
) -> Iterator[Transition]:
    """Yield what happened between two states of a ring.

    `objects` is the number of objects that each shard had when it ended, None if they were not
    counted yet; `unable` has the shards that cannot work, and why.
    """
    was, stay = present(before), present(after)
    lost = {shard for shard in was if after.get(shard) is ShardPhase.LOST}
    missing = {s for s in was & stay if not _is_missing(before, s) and _is_missing(after, s)}
    changes = (
        (Kind.LOST, lost),
        (Kind.MISSING, missing),
        (Kind.LEFT, was - stay - lost),
        (Kind.JOINED, stay - was),
    )
    available = sum(phase.owns for phase in after.values())
    for kind, shards in changes:
        if shards:
            counts = (objects or {}) if kind in {Kind.LOST, Kind.LEFT} else None
            why = [unable[s] for s in sorted(shards) if s in unable and kind is Kind.LEFT]
            fullest = sorted(shards, key=lambda shard: (-(counts or {}).get(shard, 0), shard))
            yield Transition(
                kind=kind,
                shards=tuple(fullest),
                objects=None
                if objects is None or counts is None
                else sum(counts.get(shard, 0) for shard in shards),
                available=None if kind is Kind.MISSING else available,
                detail=why[0] if why else "",
            )


def _is_missing(phases: Phases, shard: ShardName) -> bool:
    return phases[shard] is ShardPhase.MISSING


def _available(number: int) -> str:
    if number > 1:
        return f"{number} shards are available"
    return f"{'1' if number else 'no'} shard is available"

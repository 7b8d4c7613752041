"""Which transitions lead from one state of a ring to the next.

A shard counts until its objects can be taken, because a shard whose Lease was deleted might still
be working.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final

from sharder.core.api.ring import RingStatus
from sharder.core.leases.state import ShardState, duration_of
from sharder.core.names import ShardName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.conditions import PAUSED, condition_of
from sharder.core.status.phases import ShardPhase, leases_of, phases_of
from sharder.core.status.transition_messages import Kind, Transition, of_shards

_STORED: Final[Mapping[str, ShardPhase]] = {
    ShardState.READY: ShardPhase.READY,
    ShardState.EXPIRED: ShardPhase.LATE,
    ShardState.UNCERTAIN: ShardPhase.LATE,
}
"""The phases of shards that are not gone, by their states in the status."""


@dataclass(frozen=True, kw_only=True)
class RingView:
    """The state of a ring at one moment that its transitions depend on."""

    phases: Mapping[ShardName, ShardPhase]
    """The shards that own objects, and those of the previous view that were not gone then."""
    cordoned: frozenset[ShardName]
    evacuating: frozenset[ShardName]
    paused: bool

    @cached_property
    def shards(self) -> frozenset[ShardName]:
        """The shards that work or might be working."""
        return frozenset(shard for shard, phase in self.phases.items() if not phase.is_gone)

    def ended_in(self, after: "RingView") -> dict[ShardName, ShardPhase]:
        """Return the shards that are gone in `after`, and how they ended.

        A shard whose Lease was deleted while it was held is missing first.
        """
        return {
            shard: after.phases.get(shard, _VANISHED.get(self.phases[shard], ShardPhase.LEFT))
            for shard in sorted(self.shards - after.shards)
        }


_VANISHED: Final = {ShardPhase.MISSING: ShardPhase.LOST}
"""How a shard without a Lease ended, by its last phase."""


def view_of(snapshot: RingSnapshot, before: frozenset[ShardName]) -> RingView:
    """Return the present state of the ring; `before` are the shards of the last view."""
    members = snapshot.members
    phases = phases_of(members, before)
    own = [s for s in members.shards.values() if s.name in phases and phases[s.name].owns]
    return RingView(
        phases={shard: p for shard, p in phases.items() if p.owns or shard in before},
        cordoned=frozenset(s.name for s in own if s.cordoned and not s.evacuating),
        evacuating=frozenset(s.name for s in own if s.evacuating),
        paused=snapshot.ring.spec.movement.paused,
    )


def stored_view(status: RingStatus, now: RingView) -> RingView:
    """Return the state of the ring as the last leader reported it.

    If the status does not list all shards, the shards of `now` count as known, so that their
    arrival is not reported twice.
    """
    listed = status.shard_statuses
    known = {ShardName(s.name): _STORED[state] for s in listed if (state := s.state) in _STORED}
    is_partial = status.shard_statuses_truncated or (status.shards > 0 and not listed)
    paused = condition_of(status, PAUSED)
    return RingView(
        phases={**now.phases, **known} if is_partial else known,
        cordoned=frozenset(ShardName(s.name) for s in listed if s.cordoned and not s.evacuating),
        evacuating=frozenset(ShardName(s.name) for s in listed if s.evacuating),
        paused=paused is not None and paused.status == "True",
    )


def silence_of(snapshot: RingSnapshot, shard: ShardName, phase: ShardPhase) -> float:
    """Return for how many seconds a shard that is gone had not renewed its Lease."""
    lease = leases_of(snapshot.members).get(shard)
    if phase is not ShardPhase.LOST or lease is None:
        return 0.0
    # We take a Lease over after this time without a renewal, and with this duration.
    return duration_of(lease).total_seconds()


def transitions(
    before: RingView,
    after: RingView,
    objects: Mapping[ShardName, int] | None,
    unable: Mapping[ShardName, str] = MappingProxyType({}),
) -> Iterator[Transition]:
    """Yield what happened between two views.

    `objects` is the number of objects of each shard, None if they are not counted yet; `unable`
    has the shards that cannot work, and why.
    """
    available = sum(phase.owns for phase in after.phases.values())
    for kind, shards in _changes(before, after).items():
        if shards:
            number = {shard: (objects or {}).get(shard, 0) for shard in shards}
            yield of_shards(
                kind,
                number,
                counted=objects is not None and kind in _COUNTED,
                available=available if kind in _LEAVES else None,
                detail=next((unable[s] for s in sorted(shards) if s in unable), "")
                if kind is Kind.LEFT
                else "",
            )
    if after.paused != before.paused:
        yield Transition(kind=Kind.PAUSED if after.paused else Kind.RESUMED)


def _changes(before: RingView, after: RingView) -> Mapping[Kind, Set[ShardName]]:
    ended = before.ended_in(after)
    stay = after.shards & before.shards
    begun = {s: after.phases[s] for s in stay if after.phases[s] is not before.phases[s]}
    set_aside = after.cordoned | after.evacuating
    return {
        **{kind: {s for s, p in ended.items() if p is how} for kind, how in _ENDS.items()},
        Kind.JOINED: after.shards - before.shards,
        **{kind: {s for s, p in begun.items() if p is now} for kind, now in _TURNS.items()},
        Kind.EVACUATING: after.evacuating - before.evacuating,
        Kind.CORDONED: after.cordoned - before.cordoned - before.evacuating,
        Kind.UNCORDONED: ((before.cordoned | before.evacuating) & stay) - set_aside,
    }


_ENDS: Final = {Kind.LOST: ShardPhase.LOST, Kind.LEFT: ShardPhase.LEFT}
_TURNS: Final = {
    Kind.MISSING: ShardPhase.MISSING,
    Kind.LEAVING: ShardPhase.LEAVING,
    Kind.LATE: ShardPhase.LATE,
    Kind.READY: ShardPhase.READY,
}
_LEAVES: Final = frozenset({Kind.LOST, Kind.LEFT, Kind.JOINED})
_COUNTED: Final = frozenset({Kind.LOST, Kind.LEFT, Kind.EVACUATING})

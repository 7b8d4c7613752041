"""The documents of the console, built from the memory of this replica."""

from collections.abc import Callable, Iterable, Mapping
from shlex import quote
from typing import Final

from sharder.console.faults import faults_of, headline_of, health_of, unreadable
from sharder.console.memory import MAX_TEXT, Departed, Happening, Memory, Pair
from sharder.console.models import (
    Condition,
    Departure,
    Event,
    Flow,
    Health,
    Replica,
    Ring,
    RingDetail,
    Rings,
    WhatIf,
)
from sharder.console.shards import MAX_SHARDS, Shards
from sharder.controllers.cache import ClusterCache
from sharder.core.api.ring import RingStatus
from sharder.core.names import NO_RING, RingName
from sharder.core.plurals import counted
from sharder.core.preview.estimate import Estimate, estimates
from sharder.core.ring.snapshot import RingSnapshot
from sharder.runtime.clock import Clock
from sharder.runtime.event_loop import in_slices

MAX_RINGS: Final = 500
"""Limit on the rings in one document."""

MAX_FLOWS: Final = 50
"""Limit on the flows in one document; the flows with the most objects are kept."""

MAX_CONDITIONS: Final = 20
"""Limit on the conditions of a ring in one document."""

_WORST_FIRST = tuple(Health)


class RingViews:
    """Builds the documents; a ring with 200 shards takes some milliseconds."""

    def __init__(
        self,
        *,
        cache: ClusterCache,
        memory: Memory,
        replica: Callable[[], Replica],
        clock: Clock,
    ) -> None:
        """`replica` returns the current state of this replica."""
        self._cache = cache
        self._memory = memory
        self._replica = replica
        self._clock = clock

    def names(self) -> frozenset[RingName]:
        """Return the names of all rings, readable or not."""
        return self._cache.unreadable_rings().union(self._cache.rings())

    async def rings(self) -> Rings:
        """Return the summaries of all rings; other tasks run in between."""
        summaries = list[Ring]()
        async for name in in_slices(self.names(), self._clock):
            detail = self.ring(name)
            if detail is not None:
                summaries.append(_summary(detail))
        summaries.sort(key=lambda ring: (_WORST_FIRST.index(ring.health), ring.name))
        return Rings(
            replica=self._replica(),
            rings=tuple(summaries[:MAX_RINGS]),
            truncated=len(summaries) > MAX_RINGS,
            events=_events(self._memory.events(NO_RING)),
        )

    def ring(self, name: RingName) -> RingDetail | None:
        """Return one ring in full, None if there is no ring of this name."""
        broken, snapshot = self._cache.unreadable(name), self._cache.snapshot(name)
        if broken is not None:
            return self._unreadable(name, broken.problem)
        return None if snapshot is None else self._detail(snapshot)

    def _detail(self, snapshot: RingSnapshot) -> RingDetail:
        name, now = snapshot.name, self._clock.now()
        shards = Shards(snapshot, self._memory, self._cache.membership, self._clock)
        listed = tuple(shards.listed())
        departures = tuple(_departure(each, shards) for each in self._memory.departures(name))
        faults = faults_of(snapshot, shards, listed, departures, now)
        flows = self._memory.flows(name)
        drains = shards.drains
        is_moving = bool(flows or drains.count or shards.unowned)
        return RingDetail(
            name=name,
            health=health_of(faults, is_moving=is_moving),
            headline=headline_of(faults, shards, is_moving=is_moving),
            strategy=snapshot.ring.spec.placement.strategy,
            shards=len(snapshot.members.validity.valid),
            available_shards=len(snapshot.members.available),
            objects=shards.counts.objects,
            unassigned=shards.counts.unassigned,
            unowned=shards.unowned,
            draining=drains.count,
            paused=snapshot.ring.spec.movement.paused,
            resources=tuple(sorted(str(resource.id) for resource in snapshot.resources)),
            unassigned_since=shards.unassigned_since,
            draining_since=drains.since,
            shard_list=listed,
            shard_list_truncated=len(shards.phases) > MAX_SHARDS,
            faults=faults,
            departures=departures,
            moves=flows_of(flows),
            events=_events(self._memory.events(name)),
            conditions=_conditions(snapshot.ring.status),
            what_if=_what_if(snapshot, shards),
        )

    def _unreadable(self, name: RingName, problem: str) -> RingDetail:
        fault = unreadable(name, problem)
        return RingDetail(
            name=name,
            health=health_of([fault], is_moving=False),
            headline=fault.what,
            strategy="",
            shards=0,
            available_shards=0,
            objects=None,
            unassigned=None,
            unowned=None,
            draining=None,
            paused=False,
            resources=(),
            unassigned_since=None,
            draining_since=None,
            shard_list=(),
            shard_list_truncated=False,
            faults=(fault,),
            departures=(),
            moves=(),
            events=_events(self._memory.events(name)),
            conditions=(),
            what_if=(),
        )


def flows_of(moves: Mapping[Pair, int]) -> tuple[Flow, ...]:
    """Return the moves as flows, the largest first; at most `MAX_FLOWS`."""
    most_first = sorted(moves.items(), key=lambda each: (-each[1], each[0][1], each[0][0] or ""))
    return tuple(
        Flow(source=source, target=target, objects=objects)
        for (source, target), objects in most_first[:MAX_FLOWS]
    )


def _summary(ring: RingDetail) -> Ring:
    return Ring(
        name=ring.name,
        health=ring.health,
        headline=ring.headline,
        strategy=ring.strategy,
        shards=ring.shards,
        available_shards=ring.available_shards,
        objects=ring.objects,
        unassigned=ring.unassigned,
        unowned=ring.unowned,
        draining=ring.draining,
        paused=ring.paused,
    )


def _departure(gone: Departed, shards: Shards) -> Departure:
    is_here = gone.returned
    return Departure(
        shard=gone.shard,
        namespace=gone.namespace,
        phase=gone.phase,
        at=gone.at.replace(microsecond=0),
        objects=gone.objects,
        remaining=0 if is_here else shards.of(gone.shard),
        moved=flows_of({(gone.shard, target): n for target, n in gone.moved.items()}),
        returned=is_here,
    )


def _what_if(snapshot: RingSnapshot, shards: Shards) -> tuple[WhatIf, ...]:
    held, tally = shards.counts.by_shard, snapshot.tally
    if held is None or (tally is not None and not tally.synced):
        return ()
    estimated = estimates(snapshot.placer, snapshot.counts, held)
    return tuple(_preview(snapshot.name, each) for each in estimated)


def _preview(ring: RingName, estimate: Estimate) -> WhatIf:
    shard, waiting = estimate.without, estimate.waiting
    if shard is None:
        case, change = "With one shard more", "--add 1"
    else:
        case, change = f"Without {shard}, the fullest,", f"--remove {quote(shard)}"
    moving = f"about {counted(estimate.moves, 'object')}" if estimate.moves else "no object"
    rest = f"; {counted(waiting, 'object')} would find no room" if waiting else ""
    return WhatIf(
        what=f"{case} {moving} would move{rest}",
        moves=estimate.moves,
        waiting=waiting,
        run=f"sharder plan {quote(ring)} {change}",
    )


def _events(happenings: Iterable[Happening]) -> tuple[Event, ...]:
    return tuple(
        Event(at=each.at, kind=each.kind, text=each.text, warning=each.warning)
        for each in happenings
    )


def _conditions(status: RingStatus) -> tuple[Condition, ...]:
    return tuple(
        Condition(
            type=each.type,
            status=each.status,
            reason=each.reason,
            message=each.message[:MAX_TEXT],
            since=each.last_transition_time,
        )
        for each in status.conditions[:MAX_CONDITIONS]
    )

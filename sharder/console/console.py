"""The document of the console, which its page polls; without a page the console does nothing."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import Final

import msgspec

from sharder.console.models import Flow, Health, Look, Replica, Ring, RingHealth, Rings
from sharder.console.shards import MAX_SHARDS, Shards
from sharder.controllers.cache import ClusterCache
from sharder.controllers.journal import Journal, Pair
from sharder.core.diagnosis.finding import Finding, Level
from sharder.core.diagnosis.ring import NONE_COUNTED, RingFacts, findings_of, unreadable
from sharder.core.names import RingName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.phases import ShardPhase
from sharder.core.texts import counted
from sharder.runtime.clock import Clock
from sharder.runtime.event_loop import in_slices

RINGS_SECONDS: Final = 2.0
"""Seconds between two lists of all rings."""

MOVING: Final = 5.0
"""A ring is moving for so many seconds after a move."""

MAX_RINGS: Final = 500
"""Limit on the rings in one document."""

MAX_FLOWS: Final = 50
"""Limit on the flows in one document; the flows with the most objects are kept."""

_WORST_FIRST = tuple(Health)

_HEALTH = {Level.FAIL: Health.BROKEN, Level.WARN: Health.ATTENTION}


@dataclass(eq=False, kw_only=True)
class Console:
    """Shows the rings to people; writes nothing."""

    cache: ClusterCache
    journal: Journal
    clock: Clock
    version: str
    namespace: str
    """The namespace of the sharder's own Lease."""
    not_ready: Callable[[], str | None]
    """Returns why this replica is not ready, None if it is."""

    def __post_init__(self) -> None:
        self._listing = asyncio.Lock()
        self._listed: tuple[float, Rings] | None = None

    async def look(self, ring: str) -> bytes:
        """Return JSON about all rings, and about the ring of this name."""
        now, rings, chosen = self.clock.now(), await self.rings(), self.ring(RingName(ring))
        return msgspec.json.encode(Look(now=now, rings=rings, ring=chosen))

    async def rings(self) -> Rings:
        """Return all rings, as they were at most `RINGS_SECONDS` ago."""
        async with self._listing:
            now = self.clock.monotonic()
            if self._listed is None or now - self._listed[0] >= RINGS_SECONDS:
                self._listed = now, await self._list()
            return self._listed[1]

    async def _list(self) -> Rings:
        found = list[RingHealth]()
        names = {*self.cache.ring_store.unreadable, *self.cache.rings()}
        async for name in in_slices(names, self.clock):
            ring = self.ring(name)
            if ring is not None:
                found.append(RingHealth(name=name, health=ring.health))
        found.sort(key=lambda ring: (_WORST_FIRST.index(ring.health), ring.name))
        replica = Replica(
            version=self.version,
            namespace=self.namespace,
            leading=self.journal.counts is not None,
            not_ready=self.not_ready(),
        )
        return Rings(replica=replica, rings=tuple(found[:MAX_RINGS]))

    def ring(self, name: RingName) -> Ring | None:
        """Return the present state of a ring, None if there is none of this name."""
        broken, snapshot = self.cache.ring_store.unreadable.get(name), self.cache.snapshot(name)
        if broken is not None:
            fault = unreadable(name, broken.problem)
            return Ring(name=name, health=Health.BROKEN, headline=fault.message, faults=(fault,))
        return None if snapshot is None else self._ring(snapshot)

    def _ring(self, snapshot: RingSnapshot) -> Ring:
        name, journal = snapshot.name, self.journal
        shards = Shards(snapshot, journal, self.cache.membership, self.clock)
        listed, now = tuple(shards.listed()), self.clock.now()
        (draining, draining_since) = shards.drains
        quiet = self.clock.monotonic() - journal.of(name).moved_at
        facts = RingFacts(
            ring=snapshot.ring,
            members=snapshot.members,
            shards=listed,
            objects=shards.objects,
            draining=draining,
            draining_since=draining_since,
            moved_at=None if quiet == inf else now - timedelta(seconds=quiet),
            selects_nothing=not snapshot.namespaces
            and snapshot.cluster_scoped != {resource.id for resource in snapshot.resources},
        )
        faults = findings_of(facts, now)
        health = _HEALTH.get(faults[0].level, Health.OK) if faults else Health.OK
        if health is Health.OK and (draining or shards.unowned or quiet < MOVING):
            health = Health.MOVING
        return Ring(
            name=name,
            health=health,
            headline=_headline(health, faults, shards),
            strategy=snapshot.ring.spec.placement.strategy,
            shards=sum(phase is not ShardPhase.LEFT for phase in shards.phases.values()),
            available_shards=len(snapshot.members.available),
            objects=shards.objects,
            unassigned=shards.unassigned,
            unowned=shards.unowned,
            draining=draining,
            paused=snapshot.ring.spec.movement.paused,
            unassigned_since=shards.unassigned_since,
            draining_since=draining_since,
            shard_list=listed,
            shard_list_truncated=len(shards.phases) > MAX_SHARDS,
            faults=faults,
            moves=_flows_of(journal.flows(name)),
            events=tuple(journal.of(name).events),
        )


def _headline(health: Health, faults: Sequence[Finding], shards: Shards) -> str:
    """Return the sentence to read first: the worst fault, or the state of the objects."""
    if health in {Health.BROKEN, Health.ATTENTION}:
        return faults[0].message
    objects = shards.objects
    on = f"on {counted(sum(phase.owns for phase in shards.phases.values()), 'shard')}"
    if objects is None:
        return f"objects {on} are not counted yet"
    if health is Health.MOVING:
        return f"objects are moving; {counted(objects, 'object')} {on}"
    return f"{counted(objects, 'object')} {on}, each with an owner" if objects else NONE_COUNTED


def _flows_of(moves: Mapping[Pair, int]) -> tuple[Flow, ...]:
    """Return the moves as flows, the largest first; at most `MAX_FLOWS`."""
    most_first = sorted(moves.items(), key=lambda each: (-each[1], each[0][1], each[0][0] or ""))
    return tuple(
        Flow(source=source, target=target, objects=objects)
        for (source, target), objects in most_first[:MAX_FLOWS]
    )

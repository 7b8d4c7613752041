"""Read the loads of a ring's objects, and decide which of them move to balance the load.

This module connects a snapshot and its objects with the rest of `sharder.core.rebalance`
(docs/rebalancing.md).
"""

from collections import Counter
from collections.abc import Container
from math import inf

from msgspec.structs import replace

from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import RebalanceStrategy
from sharder.core.keys import main_key
from sharder.core.leases.shard import OBJECTS
from sharder.core.names import LOAD_ANNOTATION, ShardName
from sharder.core.placement.demand import MAX_MOVE_COST, Demand
from sharder.core.rebalance.loads import LoadedObject, LoadedShard, load_of, rank_of, shard_of
from sharder.core.rebalance.measures import fault_in, measure_of
from sharder.core.rebalance.packed import append, pack
from sharder.core.rebalance.run import Problem
from sharder.core.ring.snapshot import RingSnapshot

NOT_COUNTED = "the objects of the ring are still being counted"
ROLLOUT = "shards of several revisions are available: no object moves for balance"
PAUSED = "movement is paused"
FOLLOWS = "the strategy places objects by hash: rebalancing would fight it"


class Balance:
    """The loads of one ring's objects, added one by one in any order."""

    def __init__(self, snapshot: RingSnapshot, *, moved: Container[str] = ()) -> None:
        """Begin without objects; `moved` has the keys of the objects that must rest."""
        self._snapshot = snapshot
        self._available = snapshot.members.available
        self._moved = moved
        layout = snapshot.placer.layout
        self._resources = {name for shard in layout.available for name in shard.capacity}
        self._resources.discard(OBJECTS)
        self._objects = bytearray()
        self._controlled: dict[str, dict[str, float]] = {}
        self._allowed: dict[tuple[str | None, ...], tuple[ShardName, ...]] = {}
        """The shards that each combination of wishes does not exclude."""

    def add(self, obj: PartialObject) -> None:
        """Add an object of a main resource, on its next shard if it moves anyway."""
        snapshot, key = self._snapshot, main_key(obj)
        entry = snapshot.entry_of(obj)
        shard = entry.heading if entry.heading in self._available else entry.shard
        if shard is None:
            return
        rank, demand = rank_of(obj.metadata), snapshot.demand_of(obj, None, moves=True)
        is_leaving = shard != entry.shard or not entry.stays
        must_stay = entry.pinned or key in self._moved or rank.move_cost == MAX_MOVE_COST
        loaded = LoadedObject(
            key=key,
            shard=shard,
            load=self._load_of(obj),
            rank=rank,
            created=obj.metadata.creation_timestamp or "",
            kept=is_leaving or must_stay,
            allowed=self._allowed_for(demand),
            groups=demand.groups,
        )
        append(self._objects, loaded)

    def add_controlled(self, obj: PartialObject) -> None:
        """Add the load of a controlled object to that of its controller."""
        key = self._snapshot.controller_key(obj)
        load = {} if key is None else self._load_of(obj)
        if key is None or not load:
            return
        loads = self._controlled.setdefault(key, {})
        for resource, amount in load.items():
            loads[resource] = loads.get(resource, 0.0) + amount

    def standstill(self) -> str | None:
        """Return why no object can move for balance now, regardless of loads; None if some can."""
        snapshot = self._snapshot
        if (fault := fault_in(snapshot.ring.spec.rebalance)) is not None:
            return fault
        if snapshot.tally is None:
            return FOLLOWS
        if not snapshot.tally.synced:
            return NOT_COUNTED
        if snapshot.ring.spec.movement.paused:
            return PAUSED
        return ROLLOUT if snapshot.placer.layout.newest is not None else None

    def packed(self) -> bytes:
        """Return the problem of this run, for `packed.computed`."""
        problem = Problem(
            spec=self._snapshot.ring.spec.rebalance,
            shards=self._shards(),
            pool_capacity=self._snapshot.placer.layout.spec.pool_capacity,
            controlled=self._controlled,
        )
        return pack(problem, self._objects)

    def _load_of(self, obj: PartialObject) -> dict[str, float]:
        """Return a declared load, without resources that no shard has: it can name any number."""
        declared = load_of(obj.metadata.annotation(LOAD_ANNOTATION))
        return {name: declared[name] for name in declared if name in self._resources}

    def _shards(self) -> list[LoadedShard]:
        placer, counts = self._snapshot.placer, self._snapshot.counts
        ceilings = placer.ceilings(counts)
        usable = self._usable_for(Demand("", 0, moves=True))
        found = [shard_of(s, room=ceilings.room(s)) for s in placer.layout.available]
        return [replace(s, open=s.open and s.name in usable) for s in found]

    def _allowed_for(self, demand: Demand) -> tuple[ShardName, ...] | None:
        """Return the shards that the object's labels do not exclude, None if it has no wishes."""
        wishes = (demand.pin, demand.region, demand.zone, demand.pool)
        if not any(wishes):
            return None
        if wishes not in self._allowed:
            self._allowed[wishes] = self._usable_for(demand)
        return self._allowed[wishes]

    def _usable_for(self, demand: Demand) -> tuple[ShardName, ...]:
        placer = self._snapshot.placer
        names = (shard.name for shard in placer.layout.available)
        return tuple(name for name in names if placer.keeps(replace(demand, current=name)))


def is_even(snapshot: RingSnapshot) -> bool:
    """Return whether the counts show that no object has to move; then no list is needed.

    This is possible only for EvenLoad by the number of objects; the settings are valid.
    """
    spec, tally, layout = snapshot.ring.spec.rebalance, snapshot.tally, snapshot.placer.layout
    if tally is None or spec.strategy is not RebalanceStrategy.EVEN_LOAD:
        return False
    shards = [shard_of(shard, room=None) for shard in layout.available]
    measure = measure_of(spec, shards, {})
    if measure.resources or len(shards) < 2:
        return False
    held = Counter[ShardName | None]({shard.name: tally.on(shard.name) for shard in shards})
    for shard in shards:
        coming = tally.heading_to(shard.name)
        held.subtract(coming)
        held[shard.name] += sum(coming.values())
    fullest = max(held[shard.name] / shard.weight for shard in shards)
    taken = [(held[shard.name] + 1) / shard.weight for shard in shards if shard.open]
    return not measure.helps((fullest, 0.0), (0.0, min(taken, default=inf)))

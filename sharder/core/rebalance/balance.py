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
from sharder.core.rebalance.loads import LoadedObject, LoadedShard, load_of, rank_of
from sharder.core.rebalance.measures import BY_NUMBER, have_rates
from sharder.core.rebalance.packed import append, pack
from sharder.core.rebalance.run import Problem
from sharder.core.ring.snapshot import RingSnapshot

ROLLOUT = "shards of several revisions are available: no object moves for balance"
PAUSED = "movement is paused"
ONE_SHARD = "rebalancing needs at least two available shards"


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
        is_pinned = snapshot.reader.pin_of(obj) == entry.shard
        must_stay = is_pinned or key in self._moved or rank.move_cost == MAX_MOVE_COST
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
        if self._snapshot.ring.spec.movement.paused:
            return PAUSED
        if len(self._available) < 2:
            return ONE_SHARD
        return ROLLOUT if self._snapshot.placer.layout.newest is not None else None

    def packed(self) -> bytes:
        """Return the problem of this run, for `packed.computed`."""
        problem = Problem(
            spec=self._snapshot.ring.spec.rebalance,
            shards=shards_of(self._snapshot),
            pool_capacity=self._snapshot.placer.layout.spec.pool_capacity,
            controlled=self._controlled,
        )
        return pack(problem, self._objects)

    def _load_of(self, obj: PartialObject) -> dict[str, float]:
        """Return a declared load, without resources that no shard has: it can name any number."""
        declared = load_of(obj.metadata.annotation(LOAD_ANNOTATION))
        return {name: declared[name] for name in declared if name in self._resources}

    def _allowed_for(self, demand: Demand) -> tuple[ShardName, ...] | None:
        """Return the shards that the object's labels do not exclude, None if it has no wishes."""
        wishes = (demand.pin, demand.region, demand.zone, demand.pool)
        if not any(wishes):
            return None
        if wishes not in self._allowed:
            placer = self._snapshot.placer
            names = (shard.name for shard in placer.layout.available)
            self._allowed[wishes] = tuple(
                name for name in names if placer.keeps(replace(demand, current=name))
            )
        return self._allowed[wishes]


def shards_of(snapshot: RingSnapshot) -> list[LoadedShard]:
    """Return the available shards as rebalancing uses them."""
    layout, ceilings = snapshot.placer.layout, snapshot.placer.ceilings(snapshot.counts)
    return [
        LoadedShard(
            name=shard.name,
            capacity={name: float(amount) for name, amount in shard.capacity.items()},
            weight=shard.weight,
            room=ceilings.room(shard),
            pool=shard.pool,
            open=shard.name not in layout.closed,
        )
        for shard in layout.available
    ]


def is_even(snapshot: RingSnapshot) -> bool:
    """Return whether EvenLoad has nothing to move by the counts alone; then no list is needed."""
    spec, tally, shards = snapshot.ring.spec.rebalance, snapshot.tally, shards_of(snapshot)
    if tally is None or spec.strategy is not RebalanceStrategy.EVEN_LOAD:
        return False
    if have_rates(spec.resources, shards):
        return False
    held = Counter[ShardName | None]({shard.name: tally.on(shard.name) for shard in shards})
    for shard in shards:
        coming = tally.heading_to(shard.name)
        held.subtract(coming)
        held[shard.name] += sum(coming.values())
    fullest = max(held[shard.name] / shard.weight for shard in shards)
    taken = [(held[shard.name] + 1) / shard.weight for shard in shards if shard.open]
    return not BY_NUMBER.helps((fullest, 0.0), (0.0, min(taken, default=inf)))

"""Read the loads of a ring's objects, and decide which of them move to balance the load.

This module connects a snapshot and its objects with the rest of `sharder.core.rebalance`, for the
leader, `sharder plan` and `sharder explain` (docs/rebalancing.md).
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Set
from itertools import chain
from math import inf
from typing import Final

from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import RebalanceStrategy
from sharder.core.keys import main_key
from sharder.core.leases.shard import OBJECTS
from sharder.core.names import LOAD_ANNOTATION, ShardName
from sharder.core.placement.demand import NO_GROUP, Demand, identity_of
from sharder.core.rebalance.apart import apart
from sharder.core.rebalance.changes import Prints, Settled, after, loads_of, namespace_of
from sharder.core.rebalance.equal_objects import STRIDE, Steps, ended
from sharder.core.rebalance.explain import verdict
from sharder.core.rebalance.loads import LoadedObject, LoadedShard, load_of, object_of, shard_of
from sharder.core.rebalance.measures import ObjectsPerWeight, has_capacity
from sharder.core.rebalance.policy import policy_of
from sharder.core.rebalance.run import Outcome, rebalancing
from sharder.core.rebalance.search import Move, resources_of
from sharder.core.ring.snapshot import RingSnapshot

NOT_COUNTED = "the objects of the ring are still being counted"
ROLLOUT = "shards of several revisions are available: no object moves for balance"
PAUSED = "movement is paused"
FOLLOWS = "the strategy places objects by hash: rebalancing would fight it"

NOWHERE: Final = ShardName("")

MAX_SHARED: Final = 10_000
"""Maximum loads that are cached by their text; the objects of a ring have few different loads."""


class Balance:
    """The loads of one ring's objects, added one by one in any order."""

    def __init__(
        self,
        snapshot: RingSnapshot,
        *,
        moved: Container[str] = (),
        begun: Set[tuple[str, ShardName]] = frozenset(),
        settled: Settled | None = None,
    ) -> None:
        """Begin without objects.

        Args:
            snapshot: The present snapshot of the ring.
            moved: Keys of the objects that were recently moved for balance.
            begun: Pairs of a namespace and a shard that its objects left in the previous run.
            settled: The state after the previous run; None: anything might have changed since.
        """
        self._snapshot = snapshot
        self._available = snapshot.members.available
        self._moved = moved
        self._begun = begun
        self._objects: dict[str, LoadedObject] = {}
        self._demands: dict[str, Demand] = {}
        """The demands of objects that ask for something; other demands follow from the key."""
        self._controlled: dict[str, dict[str, float]] = {}
        """The sum of the loads of controlled objects, by the key of their controller."""
        is_same = settled is not None and settled.policy == self._policy
        self._before = settled if is_same else None
        self._prints = Prints()
        self._resting = Counter[str]()
        """The number of objects that were recently moved, by namespace."""
        self._unfinished = frozenset[str]()
        """Namespaces for which this run did not find or make all moves."""
        self._loads: dict[str, Mapping[str, float]] = {}
        """Loads by the text of the annotation; a copy for each object would double the memory."""

    def add(self, obj: PartialObject, *, to: ShardName | None = None) -> None:
        """Add an object of a main resource; `to` is its next shard if it moves anyway."""
        snapshot, key = self._snapshot, main_key(obj)
        entry = snapshot.entry_of(obj)
        shard = to or (entry.heading if entry.heading in self._available else entry.shard)
        if shard is None:
            return
        load = self._load_of(obj)
        kept = self._kept(obj, key, moves=shard != entry.shard)
        if key in self._objects:  # The pages of a list can show an object twice.
            self._prints.drop(self._objects[key])
        self._prints.add(key, shard, load)
        if key in self._moved:
            self._resting[namespace_of(key)] += 1
        self._objects[key] = object_of(obj, key=key, shard=shard, load=load, kept=kept)
        demand = snapshot.demand_of(obj, None, moves=True)
        if demand != Demand(key, demand.identity, moves=True):
            self._demands[key] = demand

    def add_controlled(self, obj: PartialObject) -> None:
        """Add the load of a controlled object to that of its controller."""
        key = self._snapshot.controller_key(obj)
        if key is None or not obj.metadata.annotation(LOAD_ANNOTATION):
            return
        self._prints.add(main_key(obj), NOWHERE, self._load_of(obj))
        loads = self._controlled.setdefault(key, {})
        for resource, amount in self._load_of(obj).items():
            if resource != OBJECTS:
                loads[resource] = loads.get(resource, 0.0) + amount

    def standstill(self) -> str | None:
        """Return why no object can move for balance now, regardless of loads; None if some can."""
        snapshot = self._snapshot
        try:
            policy_of(snapshot.ring.spec.rebalance)
        except ValueError as error:
            return str(error)
        if snapshot.tally is None:
            return FOLLOWS
        if not snapshot.tally.synced:
            return NOT_COUNTED
        if snapshot.ring.spec.movement.paused:
            return PAUSED
        return ROLLOUT if snapshot.placer.layout.newest is not None else None

    def outcome(self) -> Outcome:
        """Return which objects move, and why no other objects do."""
        return ended(self.looking())

    def looking(self) -> Steps[Outcome]:
        """Return the same outcome, in steps."""
        spec = self._snapshot.ring.spec.rebalance
        still = self.standstill()
        if still is not None:
            return Outcome(before={}, after={}, why=still)
        policy, budget, shards = policy_of(spec), spec.max_moves_per_interval, self._shards()
        weighed = yield from self._weighed()
        if self._before is not None and len(shards) > 1:
            outcome, self._unfinished = yield from apart(
                policy,
                shards,
                weighed,
                settled=self._before,
                groups=self._groups(self._before),
                budget=budget,
                admits=self._admits,
                begun=self._begun,
            )
            return outcome
        outcome = yield from rebalancing(
            policy,
            shards,
            weighed,
            budget=budget,
            admits=self._admits,
            begun={shard for _, shard in self._begun},
        )
        if len(outcome.moves) >= budget:
            self._unfinished = frozenset(self._prints.sums)
        return outcome

    @property
    def is_new(self) -> bool:
        """Whether there is no state of a previous run that is still valid."""
        return self._before is None

    def settling(self, moves: Iterable[Move]) -> Steps[Settled]:
        """Return the state after a run with these moves; call this after all objects are added."""
        before, resources = self._before, resources_of(self._shards())
        moved = [(self._with_controlled(self._objects[m.key]), m.target) for m in moves]
        if before is None:
            loads = yield from loads_of((yield from self._weighed()), resources)
            joint = frozenset(self._prints.sums) - self._resting.keys()
        else:
            loads, joint = before.loads, before.together - before.changed(self._prints.sums)
        jointly = [move for move in moved if before is None or namespace_of(move[0].key) in joint]
        for obj, target in moved:
            self._prints.move(self._objects[obj.key], target)
        prints = self._prints.sums.copy()
        together = joint & self._unfinished
        # These namespaces count as changed next time: objects that were moved recently can move
        # again, and there might be room for moves that were not made.
        for namespace in (self._unfinished | self._resting.keys()) - together:
            found = None if before is None else before.prints.get(namespace)
            if found is None:
                prints.pop(namespace, None)
            else:
                prints[namespace] = found
        return Settled(
            policy=self._policy,
            loads=after(loads, jointly, resources),
            together=together,
            prints=prints,
        )

    def _groups(self, before: Settled) -> list[frozenset[str]]:
        """Return sets of namespaces to judge together; those with most recent moves come last."""
        changed = before.changed(self._prints.sums)
        alone = sorted(changed, key=lambda name: (self._resting[name], name))
        joint = before.together - changed
        return [*([joint] if joint else []), *(frozenset({name}) for name in alone)]

    @property
    def _policy(self) -> object:
        layout = self._snapshot.placer.layout
        return self._snapshot.ring.spec.rebalance, layout.spec, layout.available

    def verdict(self, obj: PartialObject) -> str:
        """Return whether the object would move, and why, in one sentence."""
        spec = self._snapshot.ring.spec.rebalance
        still = self.standstill()
        if still is not None:
            return f"stays: {still}"
        return verdict(
            policy_of(spec),
            self._shards(),
            ended(self._weighed()),
            main_key(obj),
            budget=spec.max_moves_per_interval,
            admits=self._admits,
        )

    def _load_of(self, obj: PartialObject) -> Mapping[str, float]:
        text = obj.metadata.annotation(LOAD_ANNOTATION)
        load = self._loads.get(text)
        if load is None:
            load = load_of(obj.metadata)
            if len(self._loads) < MAX_SHARED:
                self._loads[text] = load
        return load

    def _kept(self, obj: PartialObject, key: str, *, moves: bool) -> str:
        snapshot = self._snapshot
        if moves:
            return "is already moving to another shard"
        if obj.metadata.deletion_timestamp is not None:
            return "is being deleted"
        if snapshot.is_draining(obj):
            return "is already draining"
        if snapshot.reader.pin_of(obj) == snapshot.owner_of(obj):
            return "is pinned to its shard"
        return "was moved less than two intervals ago" if key in self._moved else ""

    def _shards(self) -> list[LoadedShard]:
        placer, counts = self._snapshot.placer, self._snapshot.counts
        ceilings = placer.ceilings(counts)
        return [shard_of(s, room=ceilings.room(s)) for s in placer.layout.available]

    def _weighed(self) -> Steps[list[LoadedObject]]:
        weighed: list[LoadedObject] = []
        for number, obj in enumerate(self._objects.values(), start=1):
            if not number % STRIDE:
                yield
            weighed.append(self._with_controlled(obj))
        return weighed

    def _with_controlled(self, obj: LoadedObject) -> LoadedObject:
        loads = self._controlled.get(obj.key)
        if loads is None:
            return obj
        names = dict.fromkeys(chain(obj.load, loads))
        return obj._replace(load={n: obj.load.get(n, 0.0) + loads.get(n, 0.0) for n in names})

    def _admits(self, key: str, target: ShardName) -> bool:
        placer, counts = self._snapshot.placer, self._snapshot.counts
        demand = self._demands.get(key) or _plain(key)
        if demand.group != NO_GROUP:
            apart = counts.members_on(demand.group, self._objects[key].shard)
            if counts.members_on(demand.group, target) >= apart:
                return False  # Its group would be less spread than before.
        return placer.objection(demand, placer.layout.by_name[target], counts) is None


def _plain(key: str) -> Demand:
    """Return the demand of a moving object that asks for nothing."""
    return Demand(key, identity_of(key), moves=True)


def is_even(snapshot: RingSnapshot) -> bool:
    """Return whether the counts show that no object has to move; then no list is needed.

    This is possible only for EvenLoad by the number of objects (`ObjectsPerWeight`).
    """
    spec, tally = snapshot.ring.spec.rebalance, snapshot.tally
    shards = [shard_of(shard, room=None) for shard in snapshot.placer.layout.available]
    by_rates = all(has_capacity(shard, spec.resources) for shard in shards)
    if tally is None or spec.strategy is not RebalanceStrategy.EVEN_LOAD or by_rates:
        return False
    held = Counter[ShardName | None]({shard.name: tally.on(shard.name) for shard in shards})
    for shard in shards:
        coming = tally.heading_to(shard.name)
        held.subtract(coming)
        held[shard.name] += sum(coming.values())
    given = [(held[s.name] - 1) / s.weight for s in shards]
    taken = [(held[s.name] + 1) / s.weight for s in shards if s.open]
    ends = (0.0, max(given, default=0.0)), (0.0, min(taken, default=inf))
    return len(shards) > 1 and not ObjectsPerWeight().helps(*ends)

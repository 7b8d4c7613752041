"""One rebalancing run: which objects move, and why no other objects do (docs/rebalancing.md).

All objects are sorted once into the order in which they move.  Then one greedy loop makes one move
after the other, each based on the result of the moves before it.  Koordinator's proposal lists all
evictions at once; then the last ones on the list can make the result worse
(0.125 -> 0.025 -> 0.2).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from sharder.core.leases.shard import OBJECTS
from sharder.core.names import ShardName
from sharder.core.rebalance.loads import LoadedObject, LoadedShard, limited, sum_of
from sharder.core.rebalance.measures import TOLERANCE, Fragmentation, Measure, measure_of
from sharder.core.rebalance.policy import RebalancePolicy

DIGITS = 9
"""Decimal places in which equal numbers agree, consistent with `TOLERANCE`."""


class Move(NamedTuple):
    """An object that moves from its shard to another one."""

    key: str
    source: ShardName
    target: ShardName
    before: float
    """The measure of the source before the move, and likewise after it."""
    after: float


class Kind:
    """Objects of one shard that have the same rank, load and allowed shards."""

    __slots__ = ("allowed", "load", "places", "rank", "relief")

    def __init__(self, obj: LoadedObject, load: Mapping[str, float]) -> None:
        self.rank = obj.rank
        self.load = load
        self.relief = {name: -amount for name, amount in load.items()}
        """The change of their shard's load when one of them leaves."""
        self.allowed = obj.allowed
        self.places: list[int] = []
        """Their places in the order of all objects."""


class ShardSide:
    """A shard during the run."""

    __slots__ = ("kinds", "load", "number", "objects", "room", "shard")

    def __init__(self, shard: LoadedShard, objects: Sequence[LoadedObject]) -> None:
        self.shard = shard
        self.objects = objects
        """The objects that it had when the run began."""
        self.load = sum_of(obj.load for obj in objects) | {OBJECTS: float(len(objects))}
        self.room = shard.room
        self.number = 0.0
        """Its measure."""
        self.kinds: list[Kind] = []
        """The objects that can still leave it, lower ranks first."""

    @property
    def name(self) -> ShardName:
        """The shard's name."""
        return self.shard.name

    def lacks(self, load: Mapping[str, float]) -> str:
        """Return a resource that has no room for the load, empty if all have room."""
        if self.room is not None and self.room < 1:
            return OBJECTS
        for name, amount in load.items():
            capacity = self.shard.capacity.get(name)
            if capacity is None or amount <= 0:
                continue
            if self.load.get(name, 0.0) + amount > capacity * (1 + TOLERANCE):
                return name
        return ""

    def change(self, by: Mapping[str, float], objects: int) -> None:
        """Add a load, which can be negative."""
        for name, amount in by.items():
            self.load[name] = self.load.get(name, 0.0) + amount
        if self.room is not None:
            self.room -= objects


_Found: TypeAlias = tuple[ShardSide, ShardSide, Kind, int]
"""The source, the target, the kind of the object, and its place in the order of all objects."""


class Run:
    """A run and its present state; it finds one move after the other.

    An object moves at most once.
    """

    def __init__(
        self,
        policy: RebalancePolicy,
        shards: Sequence[LoadedShard],
        order: Sequence[LoadedObject],
        *,
        budget: int,
        pool_capacity: int | None,
        weak: dict[ShardName, float],
    ) -> None:
        """Begin without moves; `shards` are by name, and objects in the order of their moves."""
        self.policy = policy
        self.budget = budget
        self.moves = list[Move]()
        self.is_spent = False
        """Whether there were more moves than the budget allows."""
        self.weak = weak
        """The gain of all moves from a shard, for shards where it is less than the minimum: no
        object leaves them."""
        self._order = order
        held: dict[ShardName, list[LoadedObject]] = {shard.name: [] for shard in shards}
        self._members = Counter[tuple[int, ShardName]]()
        """The number of objects by group and shard."""
        for obj in order:
            if obj.shard in held:
                held[obj.shard].append(obj)
                self._members.update((group, obj.shard) for group in obj.groups)
        self.sides = {shard.name: ShardSide(shard, held[shard.name]) for shard in shards}
        """By name."""
        loads = {name: side.load for name, side in self.sides.items()}
        self.measure: Measure = measure_of(policy, shards, loads)
        for side in self.sides.values():
            side.number = self.measure.of(side.shard, side.load)
        self.before = {name: side.number for name, side in self.sides.items()}
        """The measure of each shard before the run."""
        self._room_of_pool = Counter[str]()
        self._has_pools = pool_capacity is not None
        if pool_capacity is not None:
            self._room_of_pool.update({shard.pool: pool_capacity for shard in shards})
        for side in self.sides.values():
            self._room_of_pool[side.shard.pool] -= len(side.objects)
        self._add_kinds({OBJECTS, *(name for shard in shards for name in shard.capacity)})
        # If there is no move between two shards, there is none until one of them changes.  Of a
        # shard without an entry, all targets have to be tried.
        self._untried: dict[ShardName, set[ShardName]] = {}

    @property
    def threshold(self) -> float | None:
        """ResourceBalance: objects leave shards above it; None with other strategies."""
        return self.measure.threshold if isinstance(self.measure, Fragmentation) else None

    def sources(self) -> list[ShardSide]:
        """Return the shards that objects should leave, the worst first."""
        found = [side for side in self.sides.values() if self.measure.is_source(side.number)]
        return sorted(found, key=lambda side: (-round(side.number, DIGITS), side.name))

    def _add_kinds(self, resources: Set[str]) -> None:
        """Group the objects that can leave; loads are compared by these resources only."""
        names, kinds = sorted(resources), dict[tuple[object, ...], Kind]()
        for place, obj in enumerate(self._order):
            if obj.kept or obj.shard not in self.sides:
                continue
            amounts = tuple([1.0 if n == OBJECTS else obj.load.get(n, 0.0) for n in names])
            like = (obj.shard, obj.rank, amounts, obj.allowed)
            kind = kinds.get(like)
            if kind is None:
                load = {
                    name: amount for name, amount in zip(names, amounts, strict=True) if amount
                }
                kind = kinds[like] = Kind(obj, load)
                self.sides[obj.shard].kinds.append(kind)
            kind.places.append(place)

    def advance(self) -> bool:
        """Make the next move that helps, if any; return whether it was made."""
        found = self._next()
        if found is not None and len(self.moves) >= self.budget:
            self.is_spent = True
        elif found is not None:
            self.moves.append(self._made(*found))
            return True
        return False

    def _next(self) -> _Found | None:
        for source in self.sources():
            if source.name in self.weak:
                continue
            untried = sorted(self._untried.get(source.name, self.sides))
            targets = [self.sides[name] for name in untried]
            targets = [
                side
                for side in targets
                if side is not source
                and side.shard.open
                and self.measure.may_help(source.number, side.number)
            ]
            found = self._from(source, targets) if targets else None
            if found is not None:
                return found
            self._untried[source.name] = set()
        return None

    def _made(self, source: ShardSide, target: ShardSide, kind: Kind, place: int) -> Move:
        obj, before = self._order[place], source.number
        kind.places.remove(place)
        source.change(kind.relief, -1)
        target.change(kind.load, 1)
        for group in obj.groups:
            self._members[group, source.name] -= 1
            self._members[group, target.name] += 1
        self._room_of_pool[source.shard.pool] += 1
        self._room_of_pool[target.shard.pool] -= 1
        for side in (source, target):
            side.number = self.measure.of(side.shard, side.load)
            self._untried.pop(side.name, None)
        for untried in self._untried.values():
            untried.update((source.name, target.name))
        return Move(obj.key, source.name, target.name, before, source.number)

    def _from(self, source: ShardSide, targets: Sequence[ShardSide]) -> _Found | None:
        for _, of_rank in groupby(source.kinds, key=attrgetter("rank")):
            rated: list[tuple[float, int, Kind]] = []
            for kind in of_rank:
                after = self.measure.of(source.shard, source.load, kind.relief)
                if kind.places and self.measure.gains(source.number, after):
                    rated.append((round(after, DIGITS), kind.places[0], kind))
            for _, _, kind in sorted(rated, key=lambda each: each[:2]):
                for target in self._ranked(kind, source, targets):
                    places = (p for p in kind.places if self._spreads(p, source, target))
                    if (place := next(places, None)) is not None:
                        return source, target, kind, place
        return None

    def _ranked(
        self, kind: Kind, source: ShardSide, targets: Iterable[ShardSide]
    ) -> list[ShardSide]:
        """Return the targets to which a move helps, the best result first."""
        left = self.measure.of(source.shard, source.load, kind.relief)
        found = []
        for target in targets:
            got = self.measure.of(target.shard, target.load, kind.load)
            if (
                self.measure.helps((source.number, left), (target.number, got))
                and (kind.allowed is None or target.name in kind.allowed)
                and not target.lacks(kind.load)
                and self._has_pool_room(source, target)
            ):
                by_weight = target.load[OBJECTS] / target.shard.weight
                found.append((round(got, DIGITS), by_weight, target.name))
        return [self.sides[name] for *_, name in sorted(found)]

    def _has_pool_room(self, source: ShardSide, target: ShardSide) -> bool:
        pool = target.shard.pool
        if not self._has_pools or not pool or pool == source.shard.pool:
            return True
        return self._room_of_pool[pool] > 0

    def _spreads(self, place: int, source: ShardSide, target: ShardSide) -> bool:
        """Return whether the group of an object is not less spread after a move."""
        groups = self._order[place].groups
        if not groups:
            return True
        return self._members[groups[-1], target.name] < self._members[groups[-1], source.name]


def run(
    policy: RebalancePolicy,
    shards: Iterable[LoadedShard],
    objects: Iterable[LoadedObject],
    *,
    budget: int,
    pool_capacity: int | None = None,
    begun: Collection[ShardName] = (),
) -> Run:
    """Return the run that balances a ring.

    If the moves of a source gain too little together, all is decided again without that source.

    Args:
        policy: The policy of the ring, which has a strategy.
        shards: The available shards, at least two, in any order.
        objects: The objects, in any order; those on other shards are ignored.
        budget: The maximum number of moves.
        pool_capacity: How many objects the shards of a pool can have together; None: any number.
        begun: The shards that objects left in the previous run: their moves continue, even if the
            remaining gain is small.
    """
    shards, order = sorted(shards, key=attrgetter("name")), in_order(limited(objects))
    weak: dict[ShardName, float] = {}
    while True:
        found = Run(policy, shards, order, budget=budget, pool_capacity=pool_capacity, weak=weak)
        while found.advance():
            pass
        too_weak = _too_weak(found.moves, found.measure.min_gain, begun)
        if found.is_spent or not too_weak:
            return found
        weak = weak | too_weak


def in_order(objects: Iterable[LoadedObject]) -> list[LoadedObject]:
    """Return the objects by rank; of equal ranks the youngest comes first, then by key."""
    found = sorted(objects, key=attrgetter("key"))
    found.sort(key=attrgetter("created"), reverse=True)
    found.sort(key=attrgetter("rank"))
    return found


def _too_weak(
    moves: Iterable[Move], min_gain: float, begun: Collection[ShardName]
) -> dict[ShardName, float]:
    """Return the gain of each source whose moves together gain too little."""
    gains: dict[ShardName, float] = {}
    for move in (move for move in moves if move.source not in begun):
        gains[move.source] = gains.get(move.source, 0.0) + move.before - move.after
    return {name: gain for name, gain in gains.items() if gain < min_gain - TOLERANCE}

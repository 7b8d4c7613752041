"""One rebalancing run: which objects move, and why no other objects do (docs/rebalancing.md).

All objects are sorted once into the order in which they move.  Then one greedy loop makes one move
after the other, each based on the result of the moves before it.  Koordinator's proposal lists all
evictions at once; then the last ones on the list can make the result worse
(0.125 -> 0.025 -> 0.2).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from operator import attrgetter
from typing import NamedTuple

import msgspec

from sharder.core.api.ring import RebalanceSpec
from sharder.core.leases.shard import OBJECTS
from sharder.core.names import ShardName
from sharder.core.rebalance.loads import LoadedObject, LoadedShard, limited, sum_of
from sharder.core.rebalance.measures import TOLERANCE, measure_of

DIGITS = 9
"""Decimal places in which equal numbers agree, consistent with `TOLERANCE`."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run depends on, except the objects."""

    spec: RebalanceSpec
    shards: list[LoadedShard]
    """The available shards, in any order."""
    pool_capacity: int | None = None
    """How many objects the shards of a pool can have together; None: any number."""
    controlled: dict[str, dict[str, float]] = {}
    """The loads of controlled objects, by the key of their controller."""


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

    __slots__ = ("kinds", "load", "name", "number", "room", "shard")

    def __init__(self, shard: LoadedShard, objects: Sequence[LoadedObject]) -> None:
        """Begin with the objects that the shard has."""
        self.shard = shard
        self.name = shard.name
        self.load = sum_of(obj.load for obj in objects) | {OBJECTS: float(len(objects))}
        self.room = inf if shard.room is None else shard.room
        self.number = 0.0
        """Its measure."""
        self.kinds: list[Kind] = []
        """The objects that can still leave it."""

    def has_room(self, load: Mapping[str, float]) -> bool:
        """Return whether another object with this load can be on the shard."""
        return self.room >= 1 and all(
            amount <= 0
            or self.load.get(name, 0.0) + amount
            <= self.shard.capacity.get(name, inf) * (1 + TOLERANCE)
            for name, amount in load.items()
        )

    def change(self, by: Mapping[str, float], objects: int) -> None:
        """Add a load, which can be negative."""
        for name, amount in by.items():
            self.load[name] = self.load.get(name, 0.0) + amount
        self.room -= objects


class Run:
    """A run and its present state; an object moves at most once."""

    def __init__(
        self, problem: Problem, order: Sequence[LoadedObject], weak: dict[ShardName, float]
    ) -> None:
        """Begin without moves; the objects are in the order of their moves."""
        self.problem = problem
        self.moves = list[Move]()
        self.is_spent = False
        """Whether there were more moves than the budget allows."""
        self.weak = weak
        """The gain of all moves from a shard, for shards where it is less than the minimum: no
        object leaves them."""
        self._order = order
        held = defaultdict[ShardName, list[LoadedObject]](list)
        self._members = Counter[tuple[int, ShardName]]()
        """The number of objects by group and shard."""
        for obj in order:
            held[obj.shard].append(obj)
            self._members.update((group, obj.shard) for group in obj.groups)
        shards = sorted(problem.shards, key=attrgetter("name"))
        self.sides = {shard.name: ShardSide(shard, held[shard.name]) for shard in shards}
        """By name."""
        loads = {name: side.load for name, side in self.sides.items()}
        self.measure = measure_of(problem.spec, shards, loads)
        capacity = inf if problem.pool_capacity is None else problem.pool_capacity
        self._pool_room = {shard.pool: capacity for shard in shards}
        for side in self.sides.values():
            side.number = self.measure.of(side.shard, side.load)
            self._pool_room[side.shard.pool] -= side.load[OBJECTS]
        self.before = {name: side.number for name, side in self.sides.items()}
        """The measure of each shard before the run."""
        self._add_kinds()
        self._untried = dict[ShardName, set[ShardName]]()
        """If there is no move between two shards, there is none until one of them changes.  For a
        shard without an entry, all targets have to be tried."""
        while (place := self._next()) is not None:
            if len(self.moves) >= problem.spec.max_moves_per_interval:
                self.is_spent = True
                break
            self._move(*place)

    def sources(self) -> list[ShardSide]:
        """Return the shards that objects should leave, the worst first."""
        found = [side for side in self.sides.values() if self.measure.is_source(side.number)]
        return sorted(found, key=lambda side: (-round(side.number, DIGITS), side.name))

    def _add_kinds(self) -> None:
        """Group the objects that can leave; loads are compared by the shards' resources only."""
        names = sorted({OBJECTS}.union(*(side.shard.capacity for side in self.sides.values())))
        kinds = dict[tuple[object, ...], Kind]()
        for place, obj in enumerate(self._order):
            if obj.kept or obj.shard not in self.sides:
                continue
            amounts = tuple([1.0 if n == OBJECTS else obj.load.get(n, 0.0) for n in names])
            like = (obj.shard, obj.rank, amounts, obj.allowed)
            if like not in kinds:
                load = {n: amount for n, amount in zip(names, amounts, strict=True) if amount}
                kinds[like] = Kind(obj, load)
                self.sides[obj.shard].kinds.append(kinds[like])
            kinds[like].places.append(place)

    def _next(self) -> tuple[Kind, int, ShardSide] | None:
        """Return the next move that helps: the kind of the object, its place and the target."""
        for source in self.sources():
            targets = [] if source.name in self.weak else self._targets(source)
            for kind, left in self._leaving(source) if targets else ():
                for target in self._ranked(kind, source, left, targets):
                    places = (p for p in kind.places if self._spreads(p, source, target))
                    if (place := next(places, None)) is not None:
                        return kind, place, target
            self._untried[source.name] = set()
        return None

    def _targets(self, source: ShardSide) -> list[ShardSide]:
        """Return the shards that could get an object from the source."""
        number, may_help = source.number, self.measure.may_help
        untried = self._untried.get(source.name, self.sides)
        others = (self.sides[name] for name in untried if name != source.name)
        return [side for side in others if side.shard.open and may_help(number, side.number)]

    def _leaving(self, source: ShardSide) -> list[tuple[Kind, float]]:
        """Return the kinds that can leave the source, and its measure then, in their order."""
        of, gains = self.measure.of, self.measure.gains
        after = [(kind, of(source.shard, source.load, kind.relief)) for kind in source.kinds]
        found = [each for each in after if each[0].places and gains(source.number, each[1])]
        return sorted(found, key=lambda it: (it[0].rank, round(it[1], DIGITS), it[0].places[0]))

    def _ranked(
        self, kind: Kind, source: ShardSide, left: float, targets: Iterable[ShardSide]
    ) -> list[ShardSide]:
        """Return the targets to which a move helps, the best result first."""
        found = []
        for target in targets:
            got = self.measure.of(target.shard, target.load, kind.load)
            if (
                self.measure.helps((source.number, left), (target.number, got))
                and (kind.allowed is None or target.name in kind.allowed)
                and target.has_room(kind.load)
                and (
                    target.shard.pool in {"", source.shard.pool}
                    or self._pool_room[target.shard.pool] > 0
                )
            ):
                by_weight = target.load[OBJECTS] / target.shard.weight
                found.append((round(got, DIGITS), by_weight, target.name))
        return [self.sides[name] for *_, name in sorted(found)]

    def _spreads(self, place: int, source: ShardSide, target: ShardSide) -> bool:
        """Return whether the group of an object is not less spread after a move."""
        of = self._order[place].groups[-1:]
        return all(self._members[it, target.name] < self._members[it, source.name] for it in of)

    def _move(self, kind: Kind, place: int, target: ShardSide) -> None:
        obj = self._order[place]
        source = self.sides[obj.shard]
        before = source.number
        kind.places.remove(place)
        for side, load, objects in ((source, kind.relief, -1), (target, kind.load, 1)):
            side.change(load, objects)
            side.number = self.measure.of(side.shard, side.load)
            self._pool_room[side.shard.pool] -= objects
            self._members.update({(group, side.name): objects for group in obj.groups})
            self._untried.pop(side.name, None)
        for untried in self._untried.values():
            untried |= {source.name, target.name}
        self.moves.append(Move(obj.key, source.name, target.name, before, source.number))


def run(problem: Problem, objects: Iterable[LoadedObject]) -> Run:
    """Return the run that balances a ring, which has a strategy and at least two shards.

    If the moves of a source gain too little together, all is decided again without that source.
    The objects can be in any order; those on other shards are ignored.
    """
    order, weak = in_order(limited(objects)), dict[ShardName, float]()
    while True:
        found, gains = Run(problem, order, weak), defaultdict[ShardName, float](float)
        for move in found.moves:
            gains[move.source] += move.before - move.after
        least = found.measure.min_gain - TOLERANCE
        too_weak = {source: gain for source, gain in gains.items() if gain < least}
        if found.is_spent or not too_weak:
            return found
        weak = weak | too_weak


def in_order(objects: Iterable[LoadedObject]) -> list[LoadedObject]:
    """Return the objects by rank; of equal ranks the youngest comes first, then by key."""
    found = sorted(objects, key=attrgetter("key"))
    found.sort(key=attrgetter("created"), reverse=True)
    found.sort(key=attrgetter("rank"))
    return found

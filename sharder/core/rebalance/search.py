"""Find one move after the other, each based on the result of the moves before it.

Koordinator's proposal lists all evictions at once.  Then the last ones on the list can make the
result worse (0.125 -> 0.025 -> 0.2), so here each move is searched after the previous one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import groupby
from math import fsum
from typing import NamedTuple

from sharder.core.leases.shard import OBJECTS
from sharder.core.names import ShardName
from sharder.core.rebalance.equal_objects import (
    STRIDE,
    Admits,
    Equivalence,
    Steps,
    in_order,
    sorts_of,
)
from sharder.core.rebalance.loads import LoadedObject, LoadedShard
from sharder.core.rebalance.measures import TOLERANCE, Measure
from sharder.core.rebalance.move_order import is_before

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


class ShardSide:
    """A shard during the search."""

    __slots__ = ("load", "number", "objects", "room", "shard", "sorts")

    def __init__(self, shard: LoadedShard, objects: Sequence[LoadedObject]) -> None:
        self.shard = shard
        self.objects = objects
        """The objects that it had when the run began."""
        self.load = load_of(objects, shard.base)
        self.room = shard.room
        self.number = 0.0
        """Its measure."""
        self.sorts: list[list[Equivalence]] | None = None
        """The objects that can still leave it, by rank; None: not computed yet."""

    @property
    def name(self) -> ShardName:
        """The shard's name."""
        return self.shard.name

    @property
    def objects_per_weight(self) -> float:
        """Its number of objects divided by its weight."""
        return self.load.get(OBJECTS, 0.0) / self.shard.weight

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

    def put(self, load: Mapping[str, float], room: int | None) -> None:
        """Set its load, and how many more objects it can get."""
        self.load = dict(load)
        self.room = room

    def change(self, by: Mapping[str, float], objects: int) -> None:
        """Add a load, which can be negative."""
        for name, amount in by.items():
            self.load[name] = self.load.get(name, 0.0) + amount
        if self.room is not None:
            self.room -= objects


class Search:
    """The moves of one run, which can be undone.  An object moves at most once."""

    def __init__(
        self, measure: Measure, sides: Mapping[ShardName, ShardSide], admits: Admits
    ) -> None:
        """Begin without moves; `sides` are ordered by name."""
        self.measure = measure
        self.sides = sides
        self.admits = admits
        self._resources = resources_of(side.shard for side in sides.values())
        self._left_out: Set[ShardName] = frozenset()
        self._done: list[tuple[Equivalence, int, LoadedObject]] = []
        # If there is no move between two shards, there is none until one of them changes.  Of a
        # shard without an entry, all pairs have to be tried.
        self._untried: dict[ShardName, set[ShardName]] = {}
        self._measure_all()
        self.keep()

    def sources(self) -> list[ShardSide]:
        """Return the shards that objects should leave, the worst first."""
        found = [side for side in self.sides.values() if self.measure.is_source(side.number)]
        return sorted(found, key=lambda side: (-round(side.number, DIGITS), side.name))

    def moves(self) -> Iterator[Move | None]:
        """Yield one move after the other; each is applied before the next one is searched.

        It yields None between steps, because with 10,000 objects on a shard, or with 1,000 shards,
        it takes seconds to find that no move helps.
        """
        while found := (yield from self._found()):
            source, target, equivalence, index = found
            after = self.measure.of(source.shard, source.load, equivalence.relief)
            obj = equivalence.members[index]
            yield Move(obj.key, source.name, target.name, source.number, after)
            self._carry_out(source, target, equivalence, index)

    def keep(self) -> None:
        """Make the moves so far permanent, and try every source again."""
        self._done.clear()
        self._left_out = frozenset()
        self._kept = {name: (dict(s.load), s.room) for name, s in self.sides.items()}

    def undo(self, *, without: Set[ShardName]) -> None:
        """Undo the moves that are not permanent; from now on, no object leaves these shards."""
        while self._done:
            equivalence, index, obj = self._done.pop()
            equivalence.put_back(index, obj)
        for name, side in self.sides.items():
            side.put(*self._kept[name])
        self._left_out = without
        self._measure_all()

    def sorts(self, source: ShardSide) -> Steps[list[list[Equivalence]]]:
        """Return the sorts of objects that can still leave a shard, by rank."""
        if source.sorts is None:
            movable = (obj for obj in source.objects if not obj.kept)
            source.sorts = yield from sorts_of(movable, self._resources)
        return source.sorts

    def objection(self, source: ShardSide, target: ShardSide, load: Mapping[str, float]) -> str:
        """Return why a load should not move from the source to the target, empty if it can."""
        if not target.shard.open:
            return "gets no new objects"
        if lacking := target.lacks(load):
            return f"has no room for its {lacking}"
        relief = {name: -amount for name, amount in load.items()}
        left = self.measure.of(source.shard, source.load, relief)
        got = self.measure.of(target.shard, target.load, load)
        if not self.measure.helps((source.number, left), (target.number, got)):
            return f"has {target.number:.4g} and would have {got:.4g}"
        return ""

    def _found(self) -> Steps[tuple[ShardSide, ShardSide, Equivalence, int] | None]:
        for source in self.sources():
            if source.name in self._left_out:
                continue
            yield
            untried = sorted(self._untried.get(source.name, self.sides))
            targets = [
                side
                for side in (self.sides[name] for name in untried)
                if side is not source and side.shard.open
            ]
            found = (yield from self._from(source, targets)) if targets else None
            if found is not None:
                return source, *found
            self._untried[source.name] = set()
        return None

    def _from(
        self, source: ShardSide, targets: Sequence[ShardSide]
    ) -> Steps[tuple[ShardSide, Equivalence, int] | None]:
        for sorts in (yield from self.sorts(source)):
            rated: list[tuple[float, Equivalence]] = []
            for number, equivalence in enumerate(sorts, start=1):
                if not number % STRIDE:
                    yield
                after = self.measure.of(source.shard, source.load, equivalence.relief)
                if equivalence.members and self.measure.gains(source.number, after):
                    rated.append((round(after, DIGITS), equivalence))
            rated.sort(key=_after)
            for _, equals in groupby(rated, key=_after):
                of_equal_gain = (equivalence for _, equivalence in equals)
                found = yield from self._first_of(of_equal_gain, source, targets)
                if found is not None:
                    return found
        return None

    def _first_of(
        self, sorts: Iterable[Equivalence], source: ShardSide, targets: Sequence[ShardSide]
    ) -> Steps[tuple[ShardSide, Equivalence, int] | None]:
        found: tuple[ShardSide, Equivalence, int] | None = None
        first: LoadedObject | None = None
        for equivalence in in_order(sorts):
            if first is not None and is_before(first, equivalence.first):
                break
            picked = yield from self._picked(equivalence, source, targets)
            if picked is None:
                continue
            target, index = picked
            if first is None or is_before(equivalence.members[index], first):
                first = equivalence.members[index]
                found = target, equivalence, index
        return found

    def _picked(
        self, equivalence: Equivalence, source: ShardSide, targets: Sequence[ShardSide]
    ) -> Steps[tuple[ShardSide, int] | None]:
        picked: ShardSide | None = None
        first = len(equivalence.members)
        for target in self._ranked(equivalence, source, targets):
            index = yield from equivalence.first_for(target.name, self.admits, before=first)
            if index < first:
                picked, first = target, index
        yield
        return None if picked is None else (picked, first)

    def _ranked(
        self, equivalence: Equivalence, source: ShardSide, targets: Sequence[ShardSide]
    ) -> list[ShardSide]:
        """Return the targets to which a move helps, the best result first."""
        left = self.measure.of(source.shard, source.load, equivalence.relief)
        found = []
        for target in targets:
            got = self.measure.of(target.shard, target.load, equivalence.load)
            helps = self.measure.helps((source.number, left), (target.number, got))
            if helps and not target.lacks(equivalence.load):
                found.append((round(got, DIGITS), target.objects_per_weight, target.name))
        return [self.sides[name] for *_, name in sorted(found)]

    def _carry_out(
        self, source: ShardSide, target: ShardSide, equivalence: Equivalence, index: int
    ) -> None:
        self._done.append((equivalence, index, equivalence.members[index]))
        equivalence.take(index)
        source.change(equivalence.relief, -1)
        target.change(equivalence.load, 1)
        for side in (source, target):
            side.number = self.measure.of(side.shard, side.load)
            self._untried.pop(side.name, None)
        for untried in self._untried.values():
            untried.update((source.name, target.name))

    def _measure_all(self) -> None:
        self._untried = {}
        for side in self.sides.values():
            side.number = self.measure.of(side.shard, side.load)


def resources_of(shards: Iterable[LoadedShard]) -> list[str]:
    """Return `objects` and the resources for which a shard has capacity; loads can have others."""
    return sorted({OBJECTS, *(name for shard in shards for name in shard.capacity)})


def load_of(objects: Iterable[LoadedObject], base: Mapping[str, float]) -> dict[str, float]:
    """Return the sum of a base and the objects' loads; their order does not change the result."""
    amounts = {name: [amount] for name, amount in base.items()}
    for obj in objects:
        for name, amount in obj.load.items():
            amounts.setdefault(name, []).append(amount)
    return {name: fsum(found) for name, found in amounts.items()}


def _after(entry: tuple[float, Equivalence]) -> float:
    return entry[0]

"""Objects of one shard with equal rank and load, and long computations in steps.

A shard can have tens of thousands of objects, but few of them differ in rank and load.  So results
that depend only on the load are computed once for all objects of one sort.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from sharder.core.names import ShardName
from sharder.core.rebalance.loads import LoadedObject
from sharder.core.rebalance.move_order import sort_by_age

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""A generator that yields between steps of a few milliseconds each, and returns the result."""


def ended(steps: Steps[T]) -> T:
    """Run all steps and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


Admits: TypeAlias = Callable[[str, ShardName], bool]
"""Returns whether a shard can have the object with a key, regardless of room for its load."""

STRIDE: Final = 1000
"""Objects, or sorts of objects, in one step, which takes about 5 ms."""


class Equivalence:
    """The objects of one sort, which have the same rank and load, in the order in which they move.

    There is at least one.
    """

    __slots__ = ("_refused", "load", "members", "relief")

    def __init__(self, load: Mapping[str, float]) -> None:
        self.load = load
        self.relief = {name: -amount for name, amount in load.items()}
        """The change of their shard's load when one of them leaves."""
        self.members: list[LoadedObject] = []
        # How many of the first members each target cannot have, so that each is checked only once.
        self._refused: dict[ShardName, int] = {}

    @property
    def first(self) -> LoadedObject:
        """The object that moves first."""
        return self.members[0]

    def first_for(self, target: ShardName, admits: Admits, *, before: int) -> Steps[int]:
        """Return the first index below `before` whose object the target can have, or `before`."""
        index = self._refused.get(target, 0)
        while index < min(before, len(self.members)):
            yield  # A check takes up to a millisecond.
            if admits(self.members[index].key, target):
                break
            index += 1
        self._refused[target] = index
        return min(index, before)

    def take(self, index: int) -> None:
        """Remove a member."""
        del self.members[index]
        for target, many in self._refused.items():
            if many > index:
                self._refused[target] = many - 1

    def put_back(self, index: int, obj: LoadedObject) -> None:
        """Insert a removed member again."""
        self.members.insert(index, obj)
        for target, many in self._refused.items():
            self._refused[target] = min(many, index)


def sorts_of(
    objects: Iterable[LoadedObject], resources: Sequence[str]
) -> Steps[list[list[Equivalence]]]:
    """Return the sorts of objects of each rank, in the order in which ranks move.

    Loads are compared by the given resources only.
    """
    found: dict[tuple[tuple[int, ...], tuple[float, ...]], Equivalence] = {}
    for number, obj in enumerate(objects, start=1):
        if not number % STRIDE:
            yield
        amounts = tuple([obj.load.get(name, 0.0) for name in resources])
        equivalence = found.get((obj.rank, amounts))
        if equivalence is None:
            load = {n: a for n, a in zip(resources, amounts, strict=True) if a}
            equivalence = found[obj.rank, amounts] = Equivalence(load)
        equivalence.members.append(obj)
    by_rank: dict[tuple[int, ...], list[Equivalence]] = {}
    for number, ((rank, _), equivalence) in enumerate(found.items(), start=1):
        if not number % STRIDE:
            yield
        sort_by_age(equivalence.members)
        by_rank.setdefault(rank, []).append(equivalence)
    return [by_rank[rank] for rank in sorted(by_rank)]


def in_order(sorts: Iterable[Equivalence]) -> list[Equivalence]:
    """Return sorts that gain the same, in the order of their first objects."""
    by_key = sorted(sorts, key=lambda equivalence: equivalence.first.key)
    return sorted(by_key, key=lambda equivalence: equivalence.first.created, reverse=True)

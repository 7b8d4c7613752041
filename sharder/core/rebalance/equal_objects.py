"""Work that is done step by step, for who has other things to do in between.

Objects of one shard that cannot be told apart by rank and load.

A shard may have tens of thousands of objects, but few sorts of them: whatever depends on the load
alone is asked once for each sort.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from sharder.core.names import ShardName
from sharder.core.rebalance.loads import LoadedObject

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""Yields between two steps, of which each takes some milliseconds at most; returns the result."""


def ended(steps: Steps[T]) -> T:
    """Return what all the steps come to."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


Admits: TypeAlias = Callable[[str, ShardName], bool]
"""Tells whether an object, by key, may be on a shard at all, room left aside."""

STRIDE: Final = 1000
"""Objects, or sorts of them, that are looked at in one step: some 5 ms."""


class Equivalence:
    """Objects of one rank and load, the first to be moved first; there is always one at least."""

    __slots__ = ("_refused", "load", "members", "relief")

    def __init__(self, load: Mapping[str, float]) -> None:
        self.load = load
        self.relief = {name: -amount for name, amount in load.items()}
        """What their shard's load changes by when one of them leaves."""
        self.members: list[LoadedObject] = []
        self._refused: dict[ShardName, int] = {}  # so many of the first ones; asked but once

    @property
    def first(self) -> LoadedObject:
        """The one that is moved before all others."""
        return self.members[0]

    def first_for(self, target: ShardName, admits: Admits, *, before: int) -> Steps[int]:
        """Return the first index below `before` of one that the target may have, else `before`."""
        index = self._refused.get(target, 0)
        while index < min(before, len(self.members)):
            yield  # to ask takes up to a millisecond
            if admits(self.members[index].key, target):
                break
            index += 1
        self._refused[target] = index
        return min(index, before)

    def take(self, index: int) -> None:
        """Leave a member out from now on."""
        del self.members[index]
        for target, many in self._refused.items():
            if many > index:
                self._refused[target] = many - 1

    def put_back(self, index: int, obj: LoadedObject) -> None:
        """Let a member in again that was taken from there."""
        self.members.insert(index, obj)
        for target, many in self._refused.items():
            self._refused[target] = min(many, index)


def sorts_of(
    objects: Iterable[LoadedObject], resources: Sequence[str]
) -> Steps[list[list[Equivalence]]]:
    """Return the sorts of objects of each rank, the rank that is moved first before the others.

    Loads are told apart by the given resources only.
    """
    found: dict[tuple[tuple[int, ...], tuple[float, ...]], Equivalence] = {}
    for number, obj in enumerate(objects, start=1):
        if not number % STRIDE:
            yield
        amounts = tuple([obj.load.get(name, 0.0) for name in resources])
        alike = found.get((obj.rank, amounts))
        if alike is None:
            load = {n: a for n, a in zip(resources, amounts, strict=True) if a}
            alike = found[obj.rank, amounts] = Equivalence(load)
        alike.members.append(obj)
    by_rank: dict[tuple[int, ...], list[Equivalence]] = {}
    for number, ((rank, _), alike) in enumerate(found.items(), start=1):
        if not number % STRIDE:
            yield
        alike.members.sort(key=_key)
        alike.members.sort(key=_created, reverse=True)
        by_rank.setdefault(rank, []).append(alike)
    return [by_rank[rank] for rank in sorted(by_rank)]


def is_before(one: LoadedObject, other: LoadedObject) -> bool:
    """Return whether one object is moved before another that is equal in all else: if younger."""
    if one.created == other.created:
        return one.key < other.key
    return one.created > other.created


def in_order(sorts: Iterable[Equivalence]) -> list[Equivalence]:
    """Return sorts that are equal in all else, ordered by their first objects."""
    by_key = sorted(sorts, key=lambda alike: alike.first.key)
    return sorted(by_key, key=lambda alike: alike.first.created, reverse=True)


def _key(obj: LoadedObject) -> str:
    return obj.key


def _created(obj: LoadedObject) -> str:
    return obj.created

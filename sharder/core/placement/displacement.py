"""Which objects leave a shard that is above its ceiling (docs/placement.md, "Ceilings").

As with gNMIc's operator (placement_blrh.go), the objects with the lowest score on a shard leave it
first, but pinned objects leave last.
"""

from heapq import nsmallest
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class KeepPriority(NamedTuple):
    """How strongly an object stays on its shard, the most important field first.

    Keys break ties.
    """

    pinned: bool
    score: float
    key: str


class LowestPriorities(Generic[T]):
    """The objects that have to leave a shard, selected from those that are offered one by one."""

    def __init__(self, excess: int) -> None:
        """Begin without objects; `excess` is how many have to leave."""
        self._excess = excess
        self._offers: list[tuple[KeepPriority, T]] = []

    def offer(self, priority: KeepPriority, item: T) -> None:
        """Consider an object; at most twice as many as have to leave are kept in memory."""
        self._offers.append((priority, item))
        if len(self._offers) > 2 * self._excess:
            self._offers = self._lowest()

    def items(self) -> list[T]:
        """Return the objects that have to leave, the one with the lowest priority first."""
        return [item for _, item in self._lowest()]

    def _lowest(self) -> list[tuple[KeepPriority, T]]:
        return nsmallest(self._excess, self._offers, key=itemgetter(0))

"""Which objects a shard that has too many gives up: those that are drawn to it least.

Source: gNMIc's operator keeps the highest scores of each pod and puts the others back into the
pool.  What people have pinned goes last, and what they had pinned goes first: it came without
asking for room, which others must not pay for.
"""

from heapq import heappush, heappushpop
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Hold(NamedTuple):
    """What speaks for an object to stay, the most important first; keys break ties."""

    pinned: bool
    invited: bool
    """The strategy has placed it there, not a pin that it has lost since."""
    score: float
    key: str


class _Offer(NamedTuple, Generic[T]):
    against: "_Reversed"
    item: T


class _Reversed:
    """A hold that sorts the other way round, for heaps have their least in front."""

    __slots__ = ("hold",)

    def __init__(self, hold: Hold) -> None:
        self.hold = hold

    def __lt__(self, other: "_Reversed") -> bool:
        return other.hold < self.hold


class Displaced(Generic[T]):
    """Of all objects of a shard, offered one by one, the few that it has too many."""

    def __init__(self, excess: int) -> None:
        """`excess` is how many to give up; memory does not grow beyond it."""
        self._excess = excess
        self._heap: list[_Offer[T]] = []

    def offer(self, hold: Hold, item: T) -> None:
        """Consider an object."""
        entry = _Offer(_Reversed(hold), item)
        if len(self._heap) < self._excess:
            heappush(self._heap, entry)
        else:
            heappushpop(self._heap, entry)

    def items(self) -> list[T]:
        """Return what is to be given up, the least drawn first."""
        ordered = sorted(self._heap, key=lambda offer: offer.against.hold)
        return [offer.item for offer in ordered]

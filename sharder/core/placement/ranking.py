"""Choices by the hash of a key: which shard ranks first, and which place in a list is drawn.

Rendezvous hashing ranks the shards for each key, and each shard ranks first for a share of them.
The objects with the lowest score on a shard leave it first if it is above its ceiling, but pinned
objects leave last (docs/placement.md, "Ceilings").

Source: Thaler and Ravishankar, "Using Name-Based Mappings to Increase Hit Rates" (1998); weights
by Schindelhauer and Schomaker, "Weighted Distributed Hash Tables" (2005); what leaves first from
gNMIc's operator (placement_blrh.go).  gNMIc hashes the shard last with FNV-1a, which mixes too
little: one of five pods ranks first for half of all keys.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from itertools import accumulate
from math import log
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar

from xxhash import xxh3_64_intdigest

from sharder.core.leases.shard import Shard

_SEPARATOR = "\0"
"""It occurs in neither names nor keys, so different pairs are never hashed as the same text."""


class Ranking:
    """Ranks the shards for each key; tests have other rankings."""

    def score(self, key: str, shard: Shard) -> float:
        """Return -weight / ln(u), where u in (0, 1) is a hash of both; the highest is best."""
        digest = xxh3_64_intdigest(shard.encoded + _after_name(key))
        return -shard.weight / log(unit(digest))

    def best(self, key: str, shards: Iterable[Shard]) -> Shard:
        """Return the shard with the highest score; only the best of each weight are compared."""
        alike = defaultdict[float, list[Shard]](list)
        for shard in shards:
            alike[shard.weight].append(shard)
        best = [self.best_of_equals(key, some) for some in alike.values()]
        return max(best, key=lambda shard: self.score(key, shard))

    def best_of_equals(self, key: str, shards: Sequence[Shard]) -> Shard:
        """Return the shard with the highest hash; all have the same weight."""
        after_name, best, highest = _after_name(key), shards[0], -1
        for shard in shards:
            digest = xxh3_64_intdigest(shard.encoded + after_name)
            if digest > highest:
                best, highest = shard, digest
        return best


def _after_name(key: str) -> bytes:
    return (_SEPARATOR + key).encode()


def unit(digest: int) -> float:
    """Return a number in (0, 1) for a hash of 64 bits."""
    # A float represents 52 bits plus one half exactly; the half avoids the results 0 and 1.
    return ((digest >> 12) + 0.5) / 2**52


def weights(many: int) -> range:
    """Return the weights of `many` places in a list.

    The first place has half the number of places, rounded up, and each further place has one more.
    So the last one is chosen up to three times as often as the first.
    """
    first = (many + 1) // 2
    return range(first, first + many)


def place_at(position: int, many: int) -> int:
    """Return the place, of `many`, that a number below the sum of their weights selects."""
    return bisect_right(list(accumulate(weights(many))), position)


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

"""Choices by the hash of a key: which shard ranks first, and which place in a list is drawn.

Rendezvous hashing ranks the shards for each key, and each shard ranks first for a share of them.

Source: Thaler and Ravishankar, "Using Name-Based Mappings to Increase Hit Rates" (1998); weights
by Schindelhauer and Schomaker, "Weighted Distributed Hash Tables" (2005).  gNMIc hashes the shard
last with FNV-1a, which mixes too little: one of five pods ranks first for half of all keys.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import log

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

"""Rendezvous hashing: every key ranks the shards, each shard gets its part of first places.

Source: Thaler and Ravishankar, "Using Name-Based Mappings to Increase Hit Rates" (1998); weights
by Schindelhauer and Schomaker, "Weighted Distributed Hash Tables" (2005).  gNMIc hashes the shard
last with FNV-1a, which mixes too little: one of five pods is the first choice of half of all keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Protocol

from xxhash import xxh3_64_intdigest

from sharder.placement.shards import Shard

_SEPARATOR = b"\0"
"""Stands in neither names nor keys, so that no two pairs are hashed alike."""


class Ranking(Protocol):
    """How much a key is drawn to a shard."""

    def score(self, key: str, shard: Shard) -> float:
        """Return the score: the highest wins.  A pure function of both."""
        ...


@dataclass(frozen=True, slots=True)
class WeightedRendezvous:
    """The product's own ranking."""

    def score(self, key: str, shard: Shard) -> float:
        """Return -weight / ln(u), where u in (0, 1) is a hash of both."""
        digest = xxh3_64_intdigest(shard.name.encode() + _SEPARATOR + key.encode())
        return -shard.weight / log(unit(digest))


def unit(digest: int) -> float:
    """Return a number in (0, 1) for a hash of 64 bits."""
    # With the half, which keeps it off 0 and 1, 52 bits are what a float holds exactly.
    return ((digest >> 12) + 0.5) / 2**52


def best(ranking: Ranking, key: str, shards: Sequence[Shard]) -> Shard:
    """Return the shard with the highest score; of equals the first of `shards`."""
    return max(shards, key=lambda shard: ranking.score(key, shard))

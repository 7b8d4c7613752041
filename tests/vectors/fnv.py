"""gNMIc's ranking, which our own replaces, and pods that it can rank.

Source: gnmic/operator, internal/gnmic/placement_blrh.go.
"""

from collections.abc import Sequence
from functools import cache
from typing import Final

from typing_extensions import override

from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.ranking import Ranking

_OFFSET: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3
_PREFIX: Final = "pod-"

IN_RING: Final = "example.com/Widget/default/"
"""Stands before the target in the key of its object."""


class Fnv(Ranking):
    """FNV-1a over key and pod number, which it mixes too little."""

    @override
    def score(self, key: str, shard: Shard) -> int:
        """Return the hash of the target, without a sign; exact, as a float would not be."""
        return fnv1a(str(number_of(shard.name)), _after_key(key.removeprefix(IN_RING)))

    @override
    def best_of_equals(self, key: str, shards: Sequence[Shard]) -> Shard:
        return max(shards, key=lambda shard: self.score(key, shard))


def fnv1a(text: str, state: int = _OFFSET) -> int:
    """Return the 64-bit FNV-1a of `text`; `state` is that of what stands before it."""
    for byte in text.encode():
        state = (state ^ byte) * _PRIME % 2**64
    return state


def pod(number: int) -> ShardName:
    """Return the name of a pod, such that names have the order of numbers."""
    return ShardName(f"{_PREFIX}{number:04}")


def number_of(name: ShardName) -> int:
    """Return the number of a pod."""
    return int(name.removeprefix(_PREFIX))


@cache
def _after_key(key: str) -> int:
    return fnv1a(f"{key}:")

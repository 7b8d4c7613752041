"""In which namespaces anything has changed since a look at the balance left nothing to do.

Those who may write objects of one namespace say what these weigh, and by a pin where they are.
That moves objects of that namespace alone: others move once something of their own has changed, or
a shard.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from xxhash import xxh3_64_intdigest

from sharder.core.names import ShardName
from sharder.core.rebalance.loads import LoadedObject

_MASK: Final = 2**64 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What a look has left behind."""

    terms: object
    """What the ring asks for, and the shards: if any of it is another, nothing is settled."""
    prints: Mapping[str, int]
    """By namespace: what its objects weigh, and where."""

    def unchanged(self, terms: object, prints: Mapping[str, int]) -> frozenset[str]:
        """Return the namespaces in which nothing has changed."""
        if terms != self.terms:
            return frozenset()
        return frozenset(ns for ns, found in prints.items() if self.prints.get(ns) == found)


class Prints:
    """Sums of hashes by namespace, the same in whatever order the objects come."""

    def __init__(self) -> None:
        self.sums: dict[str, int] = {}

    def add(self, key: str, shard: ShardName, load: Mapping[str, float]) -> None:
        """Add an object, or what it controls."""
        self._change(key, shard, load, 1)

    def drop(self, obj: LoadedObject) -> None:
        """Take an object out that was added."""
        self._change(obj.key, obj.shard, obj.load, -1)

    def move(self, obj: LoadedObject, target: ShardName) -> None:
        """Let an object that was added be on another shard."""
        self.drop(obj)
        self.add(obj.key, target, obj.load)

    def _change(self, key: str, shard: ShardName, load: Mapping[str, float], one: int) -> None:
        amounts = ",".join(f"{name}={amount!r}" for name, amount in sorted(load.items()))
        found = one * xxh3_64_intdigest(f"{key}\n{shard}\n{amounts}".encode())
        namespace = namespace_of(key)
        self.sums[namespace] = (self.sums.get(namespace, 0) + found) & _MASK


def namespace_of(key: str) -> str:
    """Return the namespace in an object's key, empty for one that has none."""
    return key.split("/")[2]

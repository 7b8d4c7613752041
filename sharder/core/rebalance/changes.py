"""What a look at the balance leaves behind, by which the next one tells what has changed.

Those who may write objects of one namespace say what these weigh, and by a pin where they are.
That must move objects of that namespace alone (`sharder.core.rebalance.apart`).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from xxhash import xxh3_64_intdigest

from sharder.core.names import ShardName
from sharder.core.rebalance.equal_objects import STRIDE, Steps
from sharder.core.rebalance.loads import LoadedObject

_MASK: Final = 2**64 - 1
"""Sums of hashes wrap at 64 bits, so that they keep the size of one."""

Loads: TypeAlias = Mapping[str, Mapping[ShardName, Mapping[str, float]]]
"""By namespace, shard and resource: what objects weigh together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The state after a run."""

    policy: object
    """What the ring asks for, and the shards: if any of it is another, nothing is settled."""
    loads: Loads
    """What each namespace counts for in the eyes of the others, however it changes."""
    together: frozenset[str]
    """Namespaces that are balanced together until a look leaves nothing to do for them."""
    prints: Mapping[str, int]
    """By namespace: what its objects weigh, and where; not of those for which more is to do."""

    def changed(self, prints: Mapping[str, int]) -> frozenset[str]:
        """Return the namespaces in which anything has changed, or more is to do."""
        return frozenset(ns for ns, found in prints.items() if self.prints.get(ns) != found)


class Prints:
    """Sums of hashes by namespace, whatever the order of the objects."""

    def __init__(self) -> None:
        self.sums: dict[str, int] = {}

    def add(self, key: str, shard: ShardName, load: Mapping[str, float]) -> None:
        """Add an object, or one that it controls."""
        self._change(key, shard, load, 1)

    def drop(self, obj: LoadedObject) -> None:
        """Remove an object."""
        self._change(obj.key, obj.shard, obj.load, -1)

    def move(self, obj: LoadedObject, target: ShardName) -> None:
        """Move an object to another shard."""
        self.drop(obj)
        self.add(obj.key, target, obj.load)

    def _change(self, key: str, shard: ShardName, load: Mapping[str, float], one: int) -> None:
        amounts = ",".join(f"{name}={amount!r}" for name, amount in sorted(load.items()))
        found = one * xxh3_64_intdigest(f"{key}\n{shard}\n{amounts}".encode())
        namespace = namespace_of(key)
        self.sums[namespace] = (self.sums.get(namespace, 0) + found) & _MASK


def loads_of(objects: Iterable[LoadedObject], resources: Collection[str]) -> Steps[Loads]:
    """Return what objects weigh, of these resources alone: a load may name any number."""
    found: dict[str, dict[ShardName, dict[str, float]]] = {}
    for number, obj in enumerate(objects, start=1):
        if not number % STRIDE:
            yield
        of_shard = found.setdefault(namespace_of(obj.key), {}).setdefault(obj.shard, {})
        for name in resources:
            if amount := obj.load.get(name, 0.0):
                of_shard[name] = of_shard.get(name, 0.0) + amount
    return found


def after(
    loads: Loads, moves: Iterable[tuple[LoadedObject, ShardName]], resources: Iterable[str]
) -> Loads:
    """Return the loads once these objects are on other shards."""
    found, resources = dict(loads), tuple(resources)
    for obj, target in moves:
        namespace = namespace_of(obj.key)
        of_shards = dict(found.get(namespace, {}))
        for shard, times in ((obj.shard, -1), (target, 1)):
            there = dict(of_shards.get(shard, {}))
            for name in resources:
                if amount := obj.load.get(name, 0.0):
                    there[name] = there.get(name, 0.0) + times * amount
            of_shards[shard] = there
        found[namespace] = of_shards
    return found


def namespace_of(key: str) -> str:
    """Return the namespace in an object's key, empty for a cluster-scoped object."""
    return key.split("/")[2]

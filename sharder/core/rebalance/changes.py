"""The state after a rebalancing run, from which the next run sees what has changed.

A client that can write the objects of one namespace decides which loads they have and, with pins,
where they are.  This must move only objects of that namespace (`sharder.core.rebalance.apart`).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from xxhash import xxh3_64_intdigest

from sharder.core.names import ShardName
from sharder.core.rebalance.equal_objects import STRIDE, Steps
from sharder.core.rebalance.loads import LoadedObject

_MASK: Final = 2**64 - 1
"""Sums of hashes wrap around at 64 bits, so that a sum needs no more space than one hash."""

Loads: TypeAlias = Mapping[str, Mapping[ShardName, Mapping[str, float]]]
"""The sum of the loads of objects, by namespace, shard and resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The state after a run."""

    policy: object
    """The settings of the ring, and its shards; if any of these change, the state is not valid."""
    loads: Loads
    """The loads of each namespace as other namespaces see them, even if they change later."""
    together: frozenset[str]
    """Namespaces that are balanced together until a run finds no more moves for them."""
    prints: Mapping[str, int]
    """By namespace: a hash of its objects' loads and shards, absent or old if more is to do."""

    def changed(self, prints: Mapping[str, int]) -> frozenset[str]:
        """Return the namespaces that have changed since, or in which more is to do."""
        return frozenset(ns for ns, found in prints.items() if self.prints.get(ns) != found)


class Prints:
    """Sums of hashes by namespace, which do not depend on the order of the objects."""

    def __init__(self) -> None:
        self.sums: dict[str, int] = {}

    def add(self, key: str, shard: ShardName, load: Mapping[str, float]) -> None:
        """Add an object or one of its controlled objects."""
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
    """Return the loads of objects for these resources only, because a load can name any number."""
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
    """Return the loads after each of these objects has moved to the given shard."""
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

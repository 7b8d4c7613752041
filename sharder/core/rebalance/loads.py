"""Shards and objects as rebalancing uses them, with the order in which objects leave a shard.

Every client that can write an object can declare its load and its rank.  An invalid value counts
as absent.

Source of the ranks: Koordinator's descheduler, with its orders and defaults
(pkg/descheduler/utils/sorter/pod.go, apis/extension).
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from math import fsum
from typing import Final, NamedTuple

import msgspec

from sharder.core.api.meta import ObjectMeta
from sharder.core.leases.shard import OBJECTS
from sharder.core.names import (
    DELETION_COST_ANNOTATION,
    EVICTION_COST_ANNOTATION,
    KOORDINATOR_PRIORITY_CLASS_LABEL,
    KOORDINATOR_QOS_LABEL,
    MOVE_COST_ANNOTATION,
    PRIORITY_ANNOTATION,
    QOS_CLASS_ANNOTATION,
    ShardName,
)
from sharder.core.placement.demand import move_cost
from sharder.core.texts import quantities

MAX_SHARE: Final = 10
"""A namespace's share of a load is at most this many times its share of the objects."""


_FREE, _BATCH, _MID, _PROD, _NO_CLASS = range(1, 6)
_PRIORITY_CLASSES: Final = {
    "koord-free": _FREE,
    "koord-batch": _BATCH,
    "koord-mid": _MID,
    "koord-prod": _PROD,
}
_BANDS: Final = {3: _FREE, 5: _BATCH, 7: _MID, 9: _PROD}
"""The class by the thousands of a priority, for objects without the label that names the class."""

_QOS: Final = {"BestEffort": 1, "Burstable": 2, "Guaranteed": 3}
_NO_QOS: Final = 4
_KOORDINATOR_QOS: Final = {"BE": 1, "LS": 2, "LSR": 3, "LSE": 4, "SYSTEM": 4}
_NO_KOORDINATOR_QOS: Final = 5
"""The rank of an object without a quality of service: lower ranks move first, so it moves last."""

# Costs as in Kubernetes and Koordinator: no plus sign, and no leading zeros unless negative.
_COST: Final = re.compile(r"-[0-9]{1,20}|0|[1-9][0-9]{0,9}")
_INTEGER: Final = re.compile(r"-?[0-9]{1,10}")
_INT32: Final = range(-(2**31), 2**31)
"""Costs have 32 bits in Kubernetes and in Koordinator."""


class Rank(NamedTuple):
    """The part of the order that does not depend on the shard: lower ranks move first."""

    priority_class: int = _NO_CLASS
    priority: int = 0
    qos: int = _NO_QOS
    koordinator_qos: int = _NO_KOORDINATOR_QOS
    deletion_cost: int = 0
    move_cost: int = 0


NO_RANK: Final = Rank()
"""The rank of an object without labels and annotations."""


class LoadedShard(msgspec.Struct, frozen=True, kw_only=True):
    """An available shard and its capacity."""

    name: ShardName
    capacity: dict[str, float] = {}
    """By resource, including `objects`; a resource without an entry has no limit."""
    weight: float = 1.0
    """Its size relative to the others, > 0."""
    room: int | None = None
    """How many more objects its ceilings allow, negative if it has too many; None: no ceiling."""
    pool: str = ""
    open: bool = True
    """Whether it can get objects; objects can leave any shard."""


class LoadedObject(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An object of a main resource.  The order of all objects does not change a result."""

    key: str
    """Its unique key."""
    shard: ShardName
    """The shard on which its load counts."""
    load: dict[str, float] = {}
    """By resource, without `objects`, of which it is one."""
    rank: tuple[int, ...] = NO_RANK
    """Objects of a lower rank move first; all ranks have the same length."""
    created: str = ""
    """RFC 3339 in UTC, to the second; of two equal objects, the younger one moves first."""
    kept: bool = False
    """Whether it must not move."""
    allowed: tuple[ShardName, ...] | None = None
    """The shards that its labels do not exclude; None: all."""
    groups: tuple[int, ...] = ()
    """The groups for which it counts; the last one is its own, which a move must not gather."""


@lru_cache(maxsize=10_000)  # The objects of a ring have few different loads.
def load_of(text: str) -> Mapping[str, float]:
    """Return a declared load by resource, in the unit of the resource; without `objects`."""
    try:
        declared = quantities(text) if text else {}
    except ValueError:
        return {}
    return {name: float(amount) for name, amount in declared.items() if name != OBJECTS}


def sum_of(loads: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the sum of loads; their order does not change the result."""
    amounts: dict[str, list[float]] = {}
    for load in loads:
        for name, amount in load.items():
            amounts.setdefault(name, []).append(amount)
    return {name: fsum(found) for name, found in amounts.items()}


def namespace_of(key: str) -> str:
    """Return the namespace in an object's key, empty for a cluster-scoped object."""
    return key.split("/")[2] if key.count("/") > 1 else ""


def limited(objects: Iterable[LoadedObject]) -> list[LoadedObject]:
    """Return the objects with the loads that count.

    A namespace's share of a load is at most `MAX_SHARE` times its share of the objects: those who
    can write a few objects cannot make all others look weightless by declaring huge loads.
    """
    objects = list(objects)
    by_namespace: dict[str, list[LoadedObject]] = {}
    for obj in objects:
        by_namespace.setdefault(namespace_of(obj.key), []).append(obj)
    if len(by_namespace) < 2:
        return objects
    shares = {name: len(held) / len(objects) for name, held in by_namespace.items()}
    loads = {name: sum_of(obj.load for obj in held) for name, held in by_namespace.items()}
    factors: dict[str, dict[str, float]] = {}
    for resource in sorted({resource for load in loads.values() for resource in load}):
        declared = {name: load.get(resource, 0.0) for name, load in loads.items()}
        for name, factor in _factors(declared, shares).items():
            factors.setdefault(name, {})[resource] = factor
    if not factors:
        return objects
    return [_scaled(obj, factors.get(namespace_of(obj.key), {})) for obj in objects]


def _factors(declared: Mapping[str, float], shares: Mapping[str, float]) -> dict[str, float]:
    """Return the factor of each namespace that declares more of one resource than may count."""
    names = [name for name, amount in declared.items() if amount > 0]
    names.sort(key=lambda name: (-declared[name] / shares[name], name))
    rest, taken, capped = fsum(declared.values()), 0.0, list[str]()
    for place, name in enumerate(names[:-1], start=1):  # nothing is left beside the last
        most = MAX_SHARE * shares[name]
        if most + taken >= 1 or declared[name] * (1 - taken) <= most * rest:
            break
        capped.append(name)
        taken, rest = taken + most, fsum(declared[other] for other in names[place:])
    total = rest / (1 - taken)
    return {name: MAX_SHARE * shares[name] * total / declared[name] for name in capped}


def _scaled(obj: LoadedObject, factors: Mapping[str, float]) -> LoadedObject:
    if not factors:
        return obj
    load = {name: amount * factors.get(name, 1.0) for name, amount in obj.load.items()}
    return msgspec.structs.replace(obj, load=load)


def rank_of(meta: ObjectMeta) -> Rank:
    """Return the object's rank."""
    if not meta.annotations and not meta.labels:
        return NO_RANK
    priority = _number(_INTEGER, meta.annotation(PRIORITY_ANNOTATION)) or 0
    qos = _QOS.get(meta.annotation(QOS_CLASS_ANNOTATION), _NO_QOS)
    koordinator_qos = _KOORDINATOR_QOS.get(meta.label(KOORDINATOR_QOS_LABEL), _NO_KOORDINATOR_QOS)
    rank = Rank(
        priority_class=_priority_class(meta, priority, qos, koordinator_qos),
        priority=priority,
        qos=qos,
        koordinator_qos=koordinator_qos,
        deletion_cost=_number(_COST, meta.annotation(DELETION_COST_ANNOTATION)) or 0,
        move_cost=_move_cost(meta),
    )
    return NO_RANK if rank == NO_RANK else rank  # saves memory: a ring can have 100,000 of them


def _priority_class(meta: ObjectMeta, priority: int, qos: int, koordinator_qos: int) -> int:
    label = meta.label(KOORDINATOR_PRIORITY_CLASS_LABEL)
    found = _PRIORITY_CLASSES.get(label) if label else _BANDS.get(priority // 1000)
    if found is not None:
        return found
    if koordinator_qos != _NO_KOORDINATOR_QOS:
        return _BATCH if koordinator_qos == _KOORDINATOR_QOS["BE"] else _PROD
    if qos != _NO_QOS:
        return _BATCH if qos == _QOS["BestEffort"] else _PROD
    return _NO_CLASS


def _move_cost(meta: ObjectMeta) -> int:
    with suppress(ValueError):
        return move_cost(meta.annotation(MOVE_COST_ANNOTATION))
    return _number(_COST, meta.annotation(EVICTION_COST_ANNOTATION)) or 0


def _number(grammar: re.Pattern[str], text: str) -> int | None:
    if grammar.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number in _INT32 else None

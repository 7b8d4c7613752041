"""Shards, objects and settings as rebalancing uses them.

Labels and annotations of an object give its load and the order in which objects move.  Every
client that can write an object can write these; an invalid value counts as absent.  Orders and
defaults are those of Koordinator's descheduler (pkg/descheduler/utils/sorter/pod.go,
apis/extension).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.api.ring import RebalanceSpec, RebalanceStrategy
from sharder.core.leases.shard import OBJECTS, Shard
from sharder.core.names import (
    DELETION_COST_ANNOTATION,
    EVICTION_COST_ANNOTATION,
    KOORDINATOR_PRIORITY_CLASS_LABEL,
    KOORDINATOR_QOS_LABEL,
    LOAD_ANNOTATION,
    MOVE_COST_ANNOTATION,
    PRIORITY_ANNOTATION,
    QOS_CLASS_ANNOTATION,
    ShardName,
)
from sharder.core.placement.demand import MAX_MOVE_COST
from sharder.core.quantities import quantities

_NOTHING: Final[Mapping[str, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedShard:
    """An available shard and its capacity."""

    name: ShardName
    capacity: Mapping[str, float] = field(default_factory=lambda: _NOTHING, hash=False)
    """By resource, including `objects`; a resource without an entry has no limit."""
    weight: float = 1.0
    """Its size relative to the others, > 0."""
    room: int | None = None
    """How many more objects its ceilings allow, below 0 if it is above; None: as many as come."""
    base: Mapping[str, float] = field(default_factory=lambda: _NOTHING, hash=False)
    """What counts as being on it besides the objects that are weighed."""
    open: bool = True
    """Whether it can get objects; objects can leave any shard."""


class LoadedObject(NamedTuple):
    """An object of a main resource, with its controlled objects."""

    key: str
    """Its unique key."""
    shard: ShardName
    """The shard on which its load counts."""
    load: Mapping[str, float]
    """By resource; `objects` is 1.  Objects can share the mapping."""
    rank: tuple[int, ...] = ()
    """Objects of a lower rank move first; all ranks have the same length."""
    created: str = ""
    """RFC 3339 in UTC, to the second; of two equal objects the younger moves first."""
    kept: str = ""
    """Why it must not move, in words that follow "it"; empty: it can move."""


ONE_OBJECT: Final[Mapping[str, float]] = MappingProxyType({OBJECTS: 1.0})
"""The load of an object without the annotation."""

_FREE, _BATCH, _MID, _PROD, _NO_CLASS = range(1, 6)
_PRIORITY_CLASSES: Final = {
    "koord-free": _FREE,
    "koord-batch": _BATCH,
    "koord-mid": _MID,
    "koord-prod": _PROD,
}
_BANDS: Final = (
    (range(3000, 4000), _FREE),
    (range(5000, 6000), _BATCH),
    (range(7000, 8000), _MID),
    (range(9000, 10000), _PROD),
)
"""Bands of priorities, for objects without the label of the class."""

_QOS: Final = {"BestEffort": 1, "Burstable": 2, "Guaranteed": 3}
_NO_QOS: Final = 4
_KOORDINATOR_QOS: Final = {"BE": 1, "LS": 2, "LSR": 3, "LSE": 4, "SYSTEM": 4}
_NO_KOORDINATOR_QOS: Final = 5
"""Ranks of the quality of service: objects of a lower rank move first, those without it last."""

# Kubernetes' and Koordinator's grammar of costs: no plus sign, no leading zeros unless negative.
_COST: Final = re.compile(r"-[0-9]{1,20}|0|[1-9][0-9]{0,9}")
_INTEGER: Final = re.compile(r"-?[0-9]{1,10}")
_INT32: Final = range(-(2**31), 2**31)
"""Both are 32 bits wide upstream."""


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


def object_of(
    obj: PartialObject,
    *,
    key: str,
    shard: ShardName,
    load: Mapping[str, float] | None = None,
    kept: str = "",
) -> LoadedObject:
    """Return the object as rebalancing uses it.

    Args:
        obj: As listed.
        key: Its key.
        shard: The shard on which its load counts.
        load: Its load with that of its controlled objects; None: only its own.
        kept: Why it must not move; the highest move cost is another reason.
    """
    meta = obj.metadata
    rank = rank_of(meta)
    if rank.move_cost == MAX_MOVE_COST:
        kept = kept or f"must never move for balance: its move cost is {MAX_MOVE_COST}"
    load = load_of(meta) if load is None else load
    return LoadedObject(key, shard, load, rank, meta.creation_timestamp or "", kept)


def shard_of(shard: Shard, *, room: int | None) -> LoadedShard:
    """Return the shard as rebalancing uses it; `room` is how many objects its ceilings allow."""
    return LoadedShard(
        name=shard.name,
        capacity={name: float(amount) for name, amount in shard.capacity.items()},
        weight=shard.weight,
        room=room,
        open=not shard.set_aside,
    )


def load_of(meta: ObjectMeta) -> Mapping[str, float]:
    """Return the load by resource, in the resource's own unit; each object has 1 of `objects`."""
    text = meta.annotation(LOAD_ANNOTATION)
    if not text:
        return ONE_OBJECT
    try:
        said = quantities(text)
    except ValueError:
        return ONE_OBJECT
    return {**{name: float(amount) for name, amount in said.items()}, **ONE_OBJECT}


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
    return NO_RANK if rank == NO_RANK else rank  # a ring can have 100,000 of them


def _priority_class(meta: ObjectMeta, priority: int, qos: int, koordinator_qos: int) -> int:
    label = meta.label(KOORDINATOR_PRIORITY_CLASS_LABEL)
    bands = (found for band, found in _BANDS if priority in band)
    found = _PRIORITY_CLASSES.get(label) if label else next(bands, None)
    if found is not None:
        return found
    if koordinator_qos != _NO_KOORDINATOR_QOS:
        return _BATCH if koordinator_qos == _KOORDINATOR_QOS["BE"] else _PROD
    if qos != _NO_QOS:
        return _BATCH if qos == _QOS["BestEffort"] else _PROD
    return _NO_CLASS


def _move_cost(meta: ObjectMeta) -> int:
    ours = _number(_INTEGER, meta.annotation(MOVE_COST_ANNOTATION))
    if ours is not None and ours >= -MAX_MOVE_COST:
        return ours
    return _number(_COST, meta.annotation(EVICTION_COST_ANNOTATION)) or 0


def _number(grammar: re.Pattern[str], text: str) -> int | None:
    if grammar.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number in _INT32 else None


AUTO: Final = "Auto"

_NUMBER: Final = re.compile(r"(?=.{1,20}$)[0-9]+(\.[0-9]+)?")
"""The grammar of the CRD, which limits the length too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalancePolicy:
    """When objects leave a shard, and what their moves have to gain."""

    strategy: RebalanceStrategy
    resources: tuple[str, ...] = ("cpu", "memory")
    threshold: float | None = None
    """ResourceBalance: the highest accepted fragmentation; None stands for `Auto`."""
    min_gain: float = 0.02
    """ResourceBalance: the least gain of all moves of one run from a shard.

    EvenLoad by rates: the least difference between two shards for a move between them.
    """


def policy_of(spec: RebalanceSpec) -> RebalancePolicy:
    """Return the policy of the spec.

    Raises:
        ValueError: the threshold, the gain or the resources are invalid.
    """
    if not spec.resources:
        raise ValueError("rebalance.resources must not be empty: name some, e.g. cpu and memory")
    twice = sorted({name for name in spec.resources if spec.resources.count(name) > 1})
    if twice:
        raise ValueError(f"rebalance.resources names {twice[0]!r} twice: name each once")
    return RebalancePolicy(
        strategy=spec.strategy,
        resources=spec.resources,
        threshold=_threshold(spec.threshold),
        min_gain=_decimal("minGain", spec.min_gain, 'a number such as "0.02"'),
    )


def _threshold(text: str) -> float | None:
    return (
        None if text == AUTO else _decimal("threshold", text, f'{AUTO} or a number, e.g. "0.15"')
    )


def _decimal(field: str, text: str, wanted: str) -> float:
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"rebalance.{field} {text[:20]!r} must be {wanted}, 0 or more")
    return float(text)

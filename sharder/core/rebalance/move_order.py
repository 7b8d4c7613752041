"""The order in which objects leave a shard for balance: lower ranks first, then younger objects.

The rank of an object follows from its labels and annotations.  Every client that can write an
object can write these.  An invalid value counts as absent.

Source: Koordinator's descheduler, with its orders and defaults
(pkg/descheduler/utils/sorter/pod.go, apis/extension).
"""

import re
from typing import Final, NamedTuple

from sharder.core.api.meta import ObjectMeta
from sharder.core.names import (
    DELETION_COST_ANNOTATION,
    EVICTION_COST_ANNOTATION,
    KOORDINATOR_PRIORITY_CLASS_LABEL,
    KOORDINATOR_QOS_LABEL,
    MOVE_COST_ANNOTATION,
    PRIORITY_ANNOTATION,
    QOS_CLASS_ANNOTATION,
)
from sharder.core.placement.demand import MAX_MOVE_COST

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
"""The class for a band of priorities, for objects without the label that names the class."""

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

"""Shards and objects as rebalancing uses them.

Every client that can write an object can declare its load.  An invalid value counts as absent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.leases.shard import OBJECTS, Shard
from sharder.core.names import LOAD_ANNOTATION, ShardName
from sharder.core.placement.demand import MAX_MOVE_COST
from sharder.core.quantities import quantities
from sharder.core.rebalance.move_order import rank_of

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
    """How many more objects its ceilings allow, negative if it has too many; None: no ceiling."""
    base: Mapping[str, float] = field(default_factory=lambda: _NOTHING, hash=False)
    """The load that counts as being on it in addition to that of the given objects."""
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
    """RFC 3339 in UTC, to the second; of two equal objects, the younger one moves first."""
    kept: str = ""
    """Why it must not move, as a text that continues "it ..."; empty: it can move."""


ONE_OBJECT: Final[Mapping[str, float]] = MappingProxyType({OBJECTS: 1.0})
"""The load of an object without the annotation."""


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
        obj: The object as listed.
        key: The key of the object.
        shard: The shard on which its load counts.
        load: Its load, including that of its controlled objects; None: only its own load.
        kept: Why it must not move; empty: only the maximum move cost can keep it.
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
    """Return the load by resource, in the unit of the resource; `objects` is always 1."""
    text = meta.annotation(LOAD_ANNOTATION)
    if not text:
        return ONE_OBJECT
    try:
        said = quantities(text)
    except ValueError:
        return ONE_OBJECT
    return {**{name: float(amount) for name, amount in said.items()}, **ONE_OBJECT}

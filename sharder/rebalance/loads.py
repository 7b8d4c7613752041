"""Shards and objects as rebalancing sees them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from sharder.names import ShardName

_NOTHING: Final[Mapping[str, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedShard:
    """An available shard and what it has room for."""

    name: ShardName
    capacity: Mapping[str, float] = field(default_factory=lambda: _NOTHING, hash=False)
    """By resource, `objects` among them; a resource that is not there has no limit."""
    weight: float = 1.0
    """Its size beside the others', > 0."""
    room: int | None = None
    """How many more objects its ceilings allow, below 0 if it is above; None: as many as come."""
    open: bool = True
    """Whether it may receive objects; one that may not can give some up all the same."""


class LoadedObject(NamedTuple):
    """An object of a main resource, with all that it controls."""

    key: str
    """Which object it is; no two have the same."""
    shard: ShardName
    """Where its load counts."""
    load: Mapping[str, float]
    """By resource; `objects` is 1.  Objects may share the mapping."""
    rank: tuple[int, ...] = ()
    """The smaller, the earlier it is moved; all have the same length."""
    created: str = ""
    """RFC 3339 in UTC, to the second; of two equal ones the younger is moved first."""
    kept: str = ""
    """Why it must not be moved, in words that follow "it"; empty: it may."""

"""Statistics of a ring's objects, for its status and its metrics.

These are values only; how they are counted depends on the ring's strategy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeAlias

from sharder.core.leases.membership import Members, Standing
from sharder.core.names import RingName, ShardName


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStats:
    """The objects of a ring's main resources at one moment."""

    objects: int
    """The objects in scope, assigned or not."""
    unassigned: int
    """The objects without an owner label."""
    draining: int
    """The draining objects."""
    by_shard: Mapping[ShardName, int]
    """The number of objects of each shard, draining ones included; no entry means none."""
    has_room: bool | None
    """Whether some shard can take one more; None: the strategy has no ceilings."""
    unowned: int
    """The objects without an available owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResyncReport:
    """The result of one complete pass over a ring's objects."""

    time: datetime
    """When it ended; aware."""
    seconds: float
    assigned: int
    """Unassigned objects that were assigned."""
    moved: int
    """Objects that moved to another shard."""
    drained: int
    """Objects whose drain began."""
    conflicts: int
    """Writes that failed because another client had updated the object."""
    failed: int
    """Objects that could not be written, conflicts included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """The drains of a ring that exceed its `drainTimeout`; at least one."""

    count: int
    first: str
    """One of the objects: resource, namespace and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """Controlled objects that could not be written to their owners' shards; at least one."""

    count: int
    first: str
    """One of them: resource, namespace and name."""


class Waiting(NamedTuple):
    """The objects of a ring that watches show."""

    unassigned: int | None
    """None: more than are remembered."""
    draining: int | None
    """Likewise."""


class ShardLoad(NamedTuple):
    """The number of a shard's objects, and its ceiling."""

    namespace: str
    """The namespace of its Lease."""
    shard: ShardName
    objects: int
    ceiling: int | None
    """None: none is declared."""


def unowned_of(members: Members, by_shard: Mapping[ShardName, int], unassigned: int) -> int:
    """Return the number of objects without an available owner."""
    standing_of = members.standing_of
    stray = (n for s, n in by_shard.items() if standing_of(s) is not Standing.AVAILABLE)
    return unassigned + sum(stray)


StatsOf: TypeAlias = Callable[[RingName], ObjectStats | None]
"""Returns the statistics of a ring, None if it was not counted yet."""

OverdueOf: TypeAlias = Callable[[RingName], Overdue | None]
"""Returns the overdue drains of a ring, None if there is none."""

ApartOf: TypeAlias = Callable[[RingName], Apart | None]
"""Returns the controlled objects of a ring that are apart from their owners, None without any."""

ReportOf: TypeAlias = Callable[[RingName], ResyncReport | None]
"""Returns the report of the last complete resync of a ring, None if there was none yet."""

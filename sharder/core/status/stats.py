"""What is known of where a ring's objects are, as its status and its series show it.

Values only: who counts, and when, depends on the ring's strategy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeAlias

from sharder.core.names import RingName, ShardName


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStats:
    """What is known of the objects of a ring's main resources at one moment."""

    objects: int
    """Those in scope, with or without owner."""
    unassigned: int
    """Those without owner."""
    draining: int
    """Those that their shard has been asked to let go."""
    by_shard: Mapping[ShardName, int]
    """How many each shard has, draining ones included; one that is not there has none."""
    has_room: bool | None
    """Whether some shard can take one more; None: the strategy knows no ceilings."""
    unowned: int
    """Those that have no owner, or one that is not available."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResyncReport:
    """What one complete pass over a ring's objects has come to."""

    time: datetime
    """When it ended; aware."""
    seconds: float
    assigned: int
    """Objects without owner that got one."""
    moved: int
    """Objects that got another owner."""
    drained: int
    """Objects whose shard was asked to let go."""
    conflicts: int
    """Writes that came too late, as somebody else had written the object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """The drains of a ring that have taken longer than its `drainTimeout`; there are some."""

    count: int
    first: str
    """One of the objects, as messages name it: resource, namespace and name."""


class ShardLoad(NamedTuple):
    """How many objects a shard has, beside how many it may have."""

    namespace: str
    """Where its Lease lives."""
    shard: ShardName
    objects: int
    ceiling: int | None
    """None: nobody has declared one."""


StatsOf: TypeAlias = Callable[[RingName], ObjectStats | None]
"""Returns what is known of a ring at this moment, None if that is nothing yet."""

OverdueOf: TypeAlias = Callable[[RingName], Overdue | None]
"""Returns which drains of a ring are overdue, None if none is."""

ReportOf: TypeAlias = Callable[[RingName], ResyncReport | None]
"""Returns how the last complete resync of a ring went, None if there was none yet."""

"""What all parts of movement share: the world outside, and who gets their reports."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from sharder.controllers.cache import ClusterCache
from sharder.controllers.permissions import Watching
from sharder.controllers.scope import Part
from sharder.core.names import RingName, ShardName
from sharder.metrics.registry import Metrics
from sharder.ports import Journal, Objects, Recorder
from sharder.runtime.backoff import Backoff, Rng
from sharder.runtime.clock import Clock

BACKOFF: Final = Backoff(base=2.0, cap=300.0)
"""Delays between attempts to move objects that could not be written or read (docs/protocol.md,
"Moving objects")."""

OnRing: TypeAlias = Callable[[RingName], None]
Report: TypeAlias = Callable[[RingName, str | None], None]
"""Called with a ring, and why its objects cannot move; None when this is over."""


def ignore(*_about: object) -> None:
    """Leave a report to the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Everything outside of movement."""

    cache: ClusterCache
    objects: Objects
    metrics: Metrics
    journal: Journal
    recorder: Recorder | None
    """Sends Events; None while we stand by: the leader reports, and shows backlogs and queues."""
    leads: Callable[[], bool]
    """Returns whether we are allowed to write at this moment."""
    watching: Watching
    """Records which watches are forbidden."""
    clock: Clock
    rng: Rng
    limit: int
    """Limit of concurrent writes."""
    on_fault: Report = ignore
    """Called with the error of a ring's strategy, and with None after a pass without one."""
    on_unreadable: Report = ignore
    """Called with what could not be read, when that changes."""
    on_unwritable: Report = ignore
    """Called with what we have no right to write, when that changes."""
    on_written: Callable[[Part], None] = ignore
    """Called with a part that rejected every write, and no longer does."""
    on_change: OnRing = ignore
    """Called when the watches, overdue drains or balance of a ring change, and after each pass."""
    on_moved: OnRing = ignore
    """Called when objects of a ring have moved, or its backlogs change."""
    on_assigned: Callable[[RingName, ShardName | None, ShardName], None] = ignore
    """Called for each main object that gets an owner, with its previous shard, if known, and its
    new one."""
    resync_ring: OnRing = ignore
    """Requests a pass over a whole ring."""

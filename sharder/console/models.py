"""The JSON that the page reads; it is no interface for others.

Times are instants, never ages, so that a document changes only when something has changed.
"""

from datetime import datetime
from enum import StrEnum

import msgspec

from sharder.controllers.journal import Event
from sharder.core.diagnosis.finding import Finding
from sharder.core.diagnosis.shards import ShardFacts


class Health(StrEnum):
    """The state of a ring; the worst first."""

    BROKEN = "broken"
    ATTENTION = "attention"
    MOVING = "moving"
    OK = "ok"


class Model(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One JSON object, with names as in Kubernetes; unknown values are null."""


class Flow(Model, frozen=True, kw_only=True):
    """Objects that moved; the source is null for objects that had no owner."""

    source: str | None
    target: str
    objects: int


class Ring(Model, frozen=True, kw_only=True):
    """One ring in full."""

    name: str
    health: Health
    headline: str
    strategy: str = ""
    shards: int = 0
    """Shards that have not left."""
    available_shards: int = 0
    objects: int | None = None
    unassigned: int | None = None
    """Objects without an owner label."""
    unowned: int | None = None
    """Objects without an available owner."""
    draining: int | None = None
    paused: bool = False
    unassigned_since: datetime | None = None
    draining_since: datetime | None = None
    shard_list: tuple[ShardFacts, ...] = ()
    """Shards that are gone or in trouble first, then the fullest; at most 200."""
    shard_list_truncated: bool = False
    faults: tuple[Finding, ...] = ()
    """The most severe first."""
    moves: tuple[Flow, ...] = ()
    """Moves of the last minute that this replica saw, the largest first."""
    events: tuple[Event, ...] = ()
    """The latest first."""


class RingHealth(Model, frozen=True, kw_only=True):
    """One ring in a list."""

    name: str
    health: Health


class Replica(Model, frozen=True, kw_only=True):
    """The replica that answers."""

    version: str
    namespace: str
    """The namespace of the sharder's own Lease, and usually of its pods."""
    leading: bool
    not_ready: str | None
    """Why the replica is not ready; null if it is."""


class Rings(Model, frozen=True, kw_only=True):
    """All rings, the worst first; at most 500."""

    replica: Replica
    rings: tuple[RingHealth, ...]


class Look(Model, frozen=True, kw_only=True):
    """What the page shows."""

    now: datetime
    rings: Rings
    ring: Ring | None
    """The chosen ring; null if there is none of this name."""

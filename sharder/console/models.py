"""The JSON of the console (docs/console.md).

Times are instants, never ages, so that a document changes only when something has changed.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from sharder.core.status.phases import ShardPhase


class Severity(StrEnum):
    """How urgent a fault is, the worst first."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class Health(StrEnum):
    """The state of a ring, the worst first."""

    BROKEN = "broken"
    ATTENTION = "attention"
    MOVING = "moving"
    OK = "ok"


class Model(BaseModel):
    """One JSON object, with names as in Kubernetes."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class Fault(Model):
    """A problem to act on, or a fact to know."""

    severity: Severity
    what: str
    why: str = ""
    run: tuple[str, ...] = ()
    """Commands that show the cause or end the fault."""


class Shard(Model):
    """One shard of a ring."""

    name: str
    namespace: str
    phase: ShardPhase
    objects: int | None
    """Objects of main resources, draining ones included; null if they are not counted."""
    capacity: int | None
    """The most objects that the shard can have; null without a ceiling."""
    draining: int | None
    """Open drains; null on a replica that does not lead."""
    draining_since: datetime | None
    """When the oldest open drain was first seen."""
    silent_since: datetime | None
    """When the shard last renewed its Lease; null unless the next renewal is late."""
    zone: str
    pool: str
    cordoned: bool
    evacuating: bool


class Flow(Model):
    """Objects that moved; the source is null for objects that had no owner."""

    source: str | None
    target: str
    objects: int


class WhatIf(Model):
    """The moves that one more shard, or one less, would cause; estimated from the counts."""

    what: str
    moves: int
    waiting: int
    """Objects that would find no room."""
    run: str
    """The command that shows the exact plan."""


class Departure(Model):
    """A shard that has departed recently, and the moves of its objects."""

    shard: str
    namespace: str
    phase: ShardPhase
    """`lost` or `left`."""
    at: datetime
    objects: int | None
    """Objects that the shard had at its departure."""
    remaining: int | None
    """Objects that the shard still owns."""
    moved: tuple[Flow, ...]
    returned: bool
    """Whether a shard of this name has come back."""


class Event(Model):
    """An event of a ring."""

    at: datetime
    kind: str
    text: str
    warning: bool


class Condition(Model):
    """A condition of the ring's status."""

    type: str
    status: str
    reason: str
    message: str
    since: str


class Ring(Model):
    """One ring in a few numbers."""

    name: str
    health: Health
    headline: str
    strategy: str
    shards: int
    available_shards: int
    objects: int | None
    unassigned: int | None
    """Objects without an owner label."""
    unowned: int | None
    """Objects without an available owner."""
    draining: int | None
    paused: bool


class RingDetail(Ring):
    """One ring in full."""

    resources: tuple[str, ...]
    unassigned_since: datetime | None
    draining_since: datetime | None
    shard_list: tuple[Shard, ...]
    """Shards that are gone or in trouble first, then the fullest; at most 200."""
    shard_list_truncated: bool
    faults: tuple[Fault, ...]
    """The most urgent first."""
    departures: tuple[Departure, ...]
    """The latest first."""
    moves: tuple[Flow, ...]
    """Moves that this replica wrote in the last minute, the largest first."""
    events: tuple[Event, ...]
    """The latest first."""
    conditions: tuple[Condition, ...]
    what_if: tuple[WhatIf, ...]


class Replica(Model):
    """The replica that answers."""

    version: str
    namespace: str
    """The namespace of the sharder's own Lease, and usually of its pods."""
    leading: bool
    not_ready: str | None
    """Why the replica is not ready; null if it is."""


class Rings(Model):
    """All rings, the worst first; at most 500."""

    replica: Replica
    rings: tuple[Ring, ...]
    truncated: bool
    events: tuple[Event, ...]
    """Events that are about no single ring, the latest first."""


class Beat(Model):
    """A heartbeat in the stream."""

    now: datetime


class Moves(Model):
    """The moves of one tick of the stream."""

    moves: tuple[Flow, ...]

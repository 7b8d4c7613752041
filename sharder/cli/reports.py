"""What the commands that read a cluster print; as JSON each is an interface (docs/cli.md)."""

import msgspec

from sharder.leases import ShardState
from sharder.names import RingName, ShardName
from sharder.preview.report import Action


class RingRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One ring; the counts are None if its objects cannot be read, `problem` says why."""

    name: RingName
    resources: tuple[str, ...]
    shards: int
    available_shards: int
    objects: int | None
    unassigned: int | None
    draining: int | None
    ready: str
    """Status of the condition Ready: `True`, `False` or `Unknown`."""
    problem: str | None


class RingsReport(msgspec.Struct, frozen=True, kw_only=True):
    """All rings, by name."""

    rings: tuple[RingRow, ...]


class ShardRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One Lease of a ring, hence one shard."""

    name: ShardName
    namespace: str
    state: ShardState
    available: bool
    objects: int
    draining: int
    renew_time: str | None
    renewed_seconds_ago: float | None
    problem: str | None
    """Why the Lease makes no shard, None if it does."""


class ShardsReport(msgspec.Struct, frozen=True, kw_only=True):
    """The shards of a ring, by name; the counts are of all its objects."""

    ring: RingName
    shards: tuple[ShardRow, ...]
    objects: int
    unassigned: int
    draining: int


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why one object is where it is."""

    ring: RingName
    resource: str
    object: str
    """`group/Kind/namespace/name`."""
    key: str | None
    """What it is placed by: its own name, or that of the object that controls it."""
    controller: str | None
    """The object that controls it, for a controlled resource."""
    owner: ShardName | None
    owner_state: ShardState | None
    """None if the owner has no Lease."""
    draining: bool
    wanted: ShardName | None
    action: Action
    to: ShardName | None
    why: str

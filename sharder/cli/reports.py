"""What the commands that read a cluster print; as JSON each is an interface (docs/cli.md).

What the commands of operators print; as JSON it is an interface (docs/cli.md).
"""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from sharder.core.api.ring import StrategyName
from sharder.core.leases.state import ShardState
from sharder.core.names import RingName, ShardName
from sharder.core.preview.plan import Action


class RingRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One ring; the counts are None if its objects cannot be read.

    `problem` says why, or why the ring does not work.
    """

    name: RingName
    strategy: StrategyName
    resources: tuple[str, ...]
    shards: int
    available_shards: int
    objects: int | None
    unassigned: int | None
    draining: int | None
    ready: str
    """Status of the condition Ready: `True`, `False` or `Unknown`."""
    paused: bool = False
    """Whether `spec.movement.paused` keeps objects where they are."""
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
    cordoned: bool
    """It keeps what it has and gets nothing new."""
    evacuating: bool
    """It is to let go of all that it has, and gets nothing new."""
    region: str
    zone: str
    pool: str
    """Empty, like the two before: none."""
    weight: float
    capacity: dict[str, str]
    """What it has room for, by resource; what is not there has no limit."""
    objects: int
    draining: int
    renew_time: str | None
    renewed_seconds_ago: float | None
    problem: str | None
    """Why the Lease makes no shard, None if it does."""
    mistakes: tuple[str, ...]
    """What of the Lease's annotations is ignored, and why."""


class ShardsReport(msgspec.Struct, frozen=True, kw_only=True):
    """The shards of a ring, by name; the counts are of all its objects."""

    ring: RingName
    paused: bool = False
    """Whether `spec.movement.paused` keeps objects where they are."""
    problem: str | None = None
    """Why the ring does not work; None if nothing is known against it."""
    shards: tuple[ShardRow, ...]
    objects: int
    unassigned: int
    draining: int


class ShardView(msgspec.Struct, frozen=True, kw_only=True):
    """What one shard is to an object."""

    name: ShardName
    state: ShardState | None
    """None if it has no Lease."""
    standing: str
    """`available`, `leaving`, `missing` or `gone`."""
    rejected: str | None
    """Why it may not have the object; None if it may."""
    remark: str | None
    """What counts for it or against it, as the strategy sees it; None if it may not have it."""


class PlacementView(msgspec.Struct, frozen=True, kw_only=True):
    """How an object of a main resource is placed, at the counts of this moment."""

    pin: str | None
    region: str | None
    zone: str | None
    pool: str | None
    """Asked for by the object's labels; None: any."""
    group: tuple[str, ...]
    """What the members of its group have in common; empty: it belongs to none."""
    chosen: ShardName | None
    """The shard that suits it best, which moves nothing under a strategy that sticks."""
    reason: str | None
    """Why none is chosen."""
    shards: tuple[ShardView, ...]
    """All shards of the ring, by name."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why one object is where it is."""

    ring: RingName
    strategy: StrategyName
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
    rebalance: str | None
    """Whether it moves for balance, and why; None if that is not asked of it."""
    movement: str | None
    """That all movement is paused; None: it is not."""
    rollout: str | None
    """That shards of several revisions are available; None: there is no such difference."""
    evacuation: str | None
    """That its owner is being evacuated; None: it is not."""
    placement: PlacementView | None
    """None for a controlled resource, or out of scope."""
    mistakes: tuple[str, ...]
    """What of its labels and annotations is ignored, and why."""


class CleanupFailure(msgspec.Struct, frozen=True, kw_only=True):
    """An object that keeps its labels, and why."""

    object: str
    """`namespace/name`."""
    why: str
    forbidden: bool
    """Whether a right is missing."""


class CleanupRow(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of one resource; `found` is the sum of the next three."""

    resource: str
    found: int
    cleaned: int
    skipped: int
    """Not written: in a dry run all of them, else those that were clean or gone by then."""
    failed: int
    objects: tuple[str, ...]
    """What a dry run found, `namespace/name`; else empty."""
    failures: tuple[CleanupFailure, ...]
    problem: str | None
    """Why there may be more than was found."""
    forbidden: bool
    """Whether that is a missing right."""


class CleanupReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was taken off the objects of a ring."""

    ring: RingName
    dry_run: bool
    looked_at: int
    """Resources."""
    resources: tuple[CleanupRow, ...]
    """Those in which there was something to find, or that could not be looked at."""
    warnings: tuple[str, ...]


class CertificateRole(StrEnum):
    """What a certificate is there for."""

    SERVING = "serving"
    """The webhook shows it."""
    ISSUING = "issuing"
    """Authority of the next serving certificate."""
    NEXT = "next"
    """Authority that is trusted already and is to issue."""
    RETIRING = "retiring"
    """Authority that issues no more and is still trusted."""


class CertificateRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One certificate."""

    role: CertificateRole
    subject: str
    serial: str
    """Hexadecimal."""
    names: tuple[str, ...]
    """DNS names and IP addresses; none for an authority."""
    not_before: str
    not_after: str
    days_left: int
    """Whole days, negative when it has ended."""
    fingerprint: str
    """SHA-256."""


class CertificatesReport(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in the Secret of the certificates."""

    secret: str
    """`namespace/name`."""
    phase: str | None
    """`stable`, `introducing` or `retiring`; None if there is a problem, or it is foreign."""
    foreign: bool
    """Whether somebody else has made the certificate: no sharder replaces or repairs it."""
    requested: str | None
    """What somebody asked to have replaced, until it is begun."""
    problem: str | None
    """Why it does not serve."""
    certificates: tuple[CertificateRow, ...]
    """The serving certificate first, then all authorities that the API server is to trust."""


class Operation(StrEnum):
    """What a person asks for, by the name of the command."""

    CORDON = "cordon"
    UNCORDON = "uncordon"
    EVACUATE = "evacuate"
    PAUSE = "pause"
    RESUME = "resume"
    PIN = "pin"
    UNPIN = "unpin"


FieldValue: TypeAlias = str | bool | None
"""None: it is not there."""


class FieldChange(msgspec.Struct, frozen=True, kw_only=True):
    """One value that is written."""

    field: str
    """Where it stands: `metadata.annotations`, `metadata.labels` or `spec.movement`."""
    key: str
    before: FieldValue
    after: FieldValue


class OperationReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an operation has written, or in a dry run would write."""

    ring: RingName
    operation: Operation
    dry_run: bool
    object: str
    """What is written to, `resource namespace/name`."""
    changes: tuple[FieldChange, ...]
    """Empty if it was so already."""
    result: str
    """One sentence for people."""
    objects: int | None
    """That the shard has: told of an evacuation, as far as they can be counted."""
    warnings: tuple[str, ...]

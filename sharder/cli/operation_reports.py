"""What the commands of operators print; as JSON it is an interface (docs/cli.md)."""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from sharder.names import RingName


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

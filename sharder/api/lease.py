"""Leases of coordination.k8s.io as values, and the times in them."""

from datetime import UTC, datetime
from typing import Final

import msgspec

from sharder.api.meta import Json, ObjectMeta, PartialObject


MAX_TRANSITIONS: Final = 2**31 - 1
"""leaseTransitions is an int32: a write of more is refused."""


class LeaseSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The spec as it stands on the wire; times are RFC 3339 text, durations whole seconds."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None

    @property
    def next_transition(self) -> int:
        """The leaseTransitions to write when the Lease changes hands."""
        return min((self.lease_transitions or 0) + 1, MAX_TRANSITIONS)


class Lease(PartialObject, frozen=True, kw_only=True, rename="camel"):
    """A Lease; for shards the name is the shard's name."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


def parse_time(text: str | None) -> datetime | None:
    """Return the instant in UTC, None where there is none or it cannot be read."""
    if not text:
        return None
    try:
        instant = datetime.fromisoformat(text)
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def format_time(instant: datetime) -> str:
    """Return the instant as metav1.MicroTime writes it: UTC, always six decimals."""
    utc = instant.astimezone(UTC).replace(tzinfo=None)
    return utc.isoformat(timespec="microseconds") + "Z"


def lease_body(
    *, name: str, labels: dict[str, str], annotations: dict[str, str], spec: LeaseSpec
) -> Json:
    """Return the body that creates a Lease."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": msgspec.to_builtins(spec),
    }

"""Leases of coordination.k8s.io as values, and the times in them.

A client that can write a Lease can make it as large as etcd allows.  So `read_lease` keeps only
the fields that are used, and limits their length.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from sharder.core.api.meta import Json, ObjectMeta, PartialObject
from sharder.core.names import (
    CAPACITY_ANNOTATION,
    CORDONED_ANNOTATION,
    EVACUATE_ANNOTATION,
    POD_UID_ANNOTATION,
    POOL_ANNOTATION,
    PROBLEM_ANNOTATION,
    REGION_LABEL,
    REVISION_LABEL,
    RING_LABEL,
    STATE_LABEL,
    WATCHES_ANNOTATION,
    WEIGHT_ANNOTATION,
    ZONE_LABEL,
)

MAX_TRANSITIONS: Final = 2**31 - 1
"""leaseTransitions is an int32: the API server rejects a larger one."""

MAX_TEXT: Final = 63
"""Maximum characters of a label or annotation, which is the limit of a label value."""

MAX_LONG_TEXT: Final = 1024
"""Maximum characters of a capacity, which is a list, and of a holder, which names a pod."""

MAX_PROBLEM: Final = 512
"""Maximum characters of a problem, a sentence that Events and conditions repeat."""

MAX_WATCHES: Final = 4096
"""Maximum characters of the list of what a controller behind a proxy watches."""

_LABELS: Final = dict.fromkeys(
    (RING_LABEL, STATE_LABEL, REVISION_LABEL, REGION_LABEL, ZONE_LABEL), MAX_TEXT
)
_ANNOTATIONS: Final = {
    POOL_ANNOTATION: MAX_TEXT,
    CAPACITY_ANNOTATION: MAX_LONG_TEXT,
    WEIGHT_ANNOTATION: MAX_TEXT,
    CORDONED_ANNOTATION: MAX_TEXT,
    EVACUATE_ANNOTATION: MAX_TEXT,
    POD_UID_ANNOTATION: MAX_TEXT,
    PROBLEM_ANNOTATION: MAX_PROBLEM,
    WATCHES_ANNOTATION: MAX_WATCHES,
}
"""The annotations that are kept, and their maximum characters."""


class LeaseSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The spec as on the wire: times are RFC 3339 text, durations are whole seconds."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None

    @property
    def next_transition(self) -> int:
        """The leaseTransitions to write when the Lease gets another holder."""
        return min((self.lease_transitions or 0) + 1, MAX_TRANSITIONS)


class Lease(PartialObject, frozen=True, kw_only=True, rename="camel"):
    """A Lease; that of a shard has the name of the shard."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


_DECODER: Final = msgspec.json.Decoder(Lease)


def read_lease(raw: bytes | msgspec.Raw) -> Lease:
    """Return the Lease that the API server sent, with only the fields that are used.

    A text that is too long is replaced by a text that says so and is also invalid.

    Raises:
        msgspec.DecodeError: `raw` is not a Lease, so it is not from an API server, which checks
            the shape of Leases; never a `ValidationError`, which would be their author's fault.
    """
    try:
        wire = _DECODER.decode(raw)
    except msgspec.ValidationError as error:
        raise msgspec.DecodeError(str(error)) from error
    if not wire.metadata.name:
        raise msgspec.DecodeError("it has no name")
    meta, spec = wire.metadata, wire.spec
    return Lease(
        metadata=replace(
            meta,
            generate_name="",
            labels=_kept(meta.labels, _LABELS),
            annotations=_kept(meta.annotations, _ANNOTATIONS),
            owner_references=None,
        ),
        spec=replace(
            spec,
            holder_identity=_bounded(spec.holder_identity, MAX_LONG_TEXT),
            acquire_time=_bounded(spec.acquire_time, MAX_TEXT),
            renew_time=_bounded(spec.renew_time, MAX_TEXT),
        ),
    )


def _kept(found: dict[str, str] | None, limits: Mapping[str, int]) -> dict[str, str] | None:
    if found is None:
        return None
    return {k: _bounded(found[k], limit) or "" for k, limit in limits.items() if k in found}


def _bounded(text: str | None, limit: int) -> str | None:
    too_long = text is not None and len(text) > limit
    return f"longer than {limit} characters" if too_long else text


def parse_time(text: str | None) -> datetime | None:
    """Return the time in UTC, None if `text` is empty or invalid."""
    if not text:
        return None
    try:
        instant = datetime.fromisoformat(text)
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def format_time(instant: datetime) -> str:
    """Return the time in the format of metav1.MicroTime: UTC, always with six decimals."""
    utc = instant.astimezone(UTC).replace(tzinfo=None)
    return utc.isoformat(timespec="microseconds") + "Z"


def to_the_second(instant: datetime) -> str:
    """Return the time in the format of metav1.Time: UTC, without a fraction."""
    return format_time(instant)[:19] + "Z"


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

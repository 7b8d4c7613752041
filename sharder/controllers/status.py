"""What the sharder says about a ring in its status; pure."""

from datetime import datetime

import msgspec

from sharder.api.lease import format_time
from sharder.api.meta import Json
from sharder.api.ring import Condition, ControllerRing, RingStatus

READY = "Ready"
SUCCEEDED, FAILED = "ReconciliationSucceeded", "ReconciliationFailed"


def status_of(
    ring: ControllerRing,
    before: RingStatus,
    *,
    shards: int,
    available: int,
    problem: str | None,
    now: datetime,
) -> RingStatus:
    """Return the status to report; equal to `before` if there is nothing new to say.

    Args:
        ring: As last seen.
        before: The status that the ring has; its conditions of other types are kept.
        shards: Number of Leases with the ring's label.
        available: Number of shards that may own objects.
        problem: What keeps the ring from working and what to do about it, None if nothing.
        now: Becomes the transition time where a condition flips.
    """
    ready = _ready(ring, before, problem, now)
    others = tuple(c for c in before.conditions if c.type != READY)
    return RingStatus(
        observed_generation=ring.metadata.generation,
        shards=shards,
        available_shards=available,
        conditions=tuple(sorted((*others, ready), key=lambda c: c.type)),
    )


def encode_status(status: RingStatus) -> Json:
    """Return the merge patch of the ring's status.

    It carries no resourceVersion: the leader alone writes it, from what it knows, and the user's
    edit of the spec in the meantime is no reason to keep silent.
    """
    body: Json = msgspec.to_builtins(status)
    return {"status": body}


def _ready(
    ring: ControllerRing, before: RingStatus, problem: str | None, now: datetime
) -> Condition:
    status = "True" if problem is None else "False"
    known = next((c for c in before.conditions if c.type == READY), None)
    # RFC 3339 to the second: metav1.Time takes no fraction.
    since = format_time(now)[:19] + "Z"
    if known is not None and known.status == status:
        since = known.last_transition_time
    return Condition(
        type=READY,
        status=status,
        reason=SUCCEEDED if problem is None else FAILED,
        message="the ring works" if problem is None else problem,
        observed_generation=ring.metadata.generation,
        last_transition_time=since,
    )

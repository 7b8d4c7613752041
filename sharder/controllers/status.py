"""What the sharder says about a ring in its status; pure."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from sharder.api.lease import format_time
from sharder.api.meta import Json
from sharder.api.ring import Condition, ControllerRing, RingStatus
from sharder.controllers.movement.rights import advice
from sharder.names import GroupResource
from sharder.runtime.polled import POLL_SECONDS

READY = "Ready"
SUCCEEDED, FAILED = "ReconciliationSucceeded", "ReconciliationFailed"
WATCHED = "Watched"
ALLOWED, MISSING = "WatchAllowed", "WatchMissing"


def status_of(
    ring: ControllerRing,
    before: RingStatus,
    *,
    shards: int,
    available: int,
    problem: str | None,
    unwatched: Sequence[GroupResource] | None = None,
    now: datetime,
) -> RingStatus:
    """Return the status to report; equal to `before` if there is nothing new to say.

    Args:
        ring: As last seen.
        before: The status that the ring has; its conditions of other types are kept.
        shards: Number of Leases with the ring's label.
        available: Number of shards that may own objects.
        problem: What keeps the ring from working and what to do about it, None if nothing.
        unwatched: Resources that may not be watched, in order; None as long as it is not known.
        now: Becomes the transition time where a condition flips.
    """
    ours = [_ready(ring, before, problem, now)]
    watched = _watched(ring, before, unwatched, now)
    if watched is not None:
        ours.append(watched)
    others = tuple(c for c in before.conditions if c.type not in {READY, WATCHED})
    return RingStatus(
        observed_generation=ring.metadata.generation,
        shards=shards,
        available_shards=available,
        conditions=tuple(sorted((*others, *ours), key=lambda c: c.type)),
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
    said = Condition(
        type=READY,
        status="True" if problem is None else "False",
        reason=SUCCEEDED if problem is None else FAILED,
        message="the ring works" if problem is None else problem,
        observed_generation=ring.metadata.generation,
    )
    return _since(said, before, now)


def _watched(
    ring: ControllerRing,
    before: RingStatus,
    unwatched: Sequence[GroupResource] | None,
    now: datetime,
) -> Condition | None:
    """Say that rights are missing, and once they are granted that they are there.

    A ring that never lacked one has no such condition; as long as nothing is known it stays.
    """
    known = _condition(before, WATCHED)
    if unwatched is None or (known is None and not unwatched):
        return known
    slower = f"listed every {POLL_SECONDS:.0f} s instead of watched: {advice(unwatched)}"
    said = Condition(
        type=WATCHED,
        status="False" if unwatched else "True",
        reason=MISSING if unwatched else ALLOWED,
        message=slower if unwatched else "all resources of the ring may be watched",
        observed_generation=ring.metadata.generation,
    )
    return _since(said, before, now)


def _since(said: Condition, before: RingStatus, now: datetime) -> Condition:
    """Return the condition with the time at which it became what it is."""
    known = _condition(before, said.type)
    # RFC 3339 to the second: metav1.Time takes no fraction.
    since = format_time(now)[:19] + "Z"
    if known is not None and known.status == said.status:
        since = known.last_transition_time
    return msgspec.structs.replace(said, last_transition_time=since)


def _condition(status: RingStatus, name: str) -> Condition | None:
    return next((c for c in status.conditions if c.type == name), None)

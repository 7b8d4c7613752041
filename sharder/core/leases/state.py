"""The state of a shard, by its Lease (docs/protocol.md, "Shards and their Leases").

There are two judgements, and they are separate on purpose.  `state_of` reads the times in the
Lease.  A single read, such as one by the command line, shows nothing else.  `ObservedLease` in
`observed.py` judges by how long this process has seen the Lease unchanged, on its own clock.
"""

from datetime import datetime, timedelta
from enum import StrEnum

from sharder.core.api.lease import Lease, parse_time
from sharder.core.names import SHARDER_IDENTITY

DEFAULT_DURATION = timedelta(seconds=15)
"""The default of client-go, for a Lease without a valid duration."""

SILENT_DURATIONS = 2
"""How many durations a shard can be silent before it counts as gone, as in the reference."""

ORPHANED_AFTER = timedelta(seconds=60)
"""How long a dead Lease is kept after it has expired, as in the reference."""

MIN_DURATION_SECONDS, MAX_DURATION_SECONDS = 1, 3600
"""A Lease with a duration outside this range is invalid: it is a mistake or an attack."""


class ShardState(StrEnum):
    """The state of a shard, healthiest first; the values of the Lease's state label."""

    READY = "ready"
    EXPIRED = "expired"
    UNCERTAIN = "uncertain"
    DEAD = "dead"
    ORPHANED = "orphaned"


HEALTHIEST_FIRST = tuple(ShardState)
"""The states in order."""


def state_of(lease: Lease, now: datetime) -> ShardState:
    """Return the state at `now` (aware), by the times in the Lease.

    A Lease that lacks one of its times counts as expiring now, with the default duration.
    """
    age, duration = age_at(lease, now), duration_of(lease)
    if not is_held(lease):
        return ShardState.DEAD if age < duration + ORPHANED_AFTER else ShardState.ORPHANED
    if age >= SILENT_DURATIONS * duration:
        return ShardState.UNCERTAIN
    return ShardState.EXPIRED if age >= duration else ShardState.READY


def is_held(lease: Lease) -> bool:
    """Return whether the shard itself holds the Lease: the holder is the Lease's name."""
    return bool(lease.spec.holder_identity) and lease.spec.holder_identity == lease.metadata.name


def is_given_up(lease: Lease) -> bool:
    """Return whether no shard works under this Lease: it was released, or we took it over."""
    return lease.spec.holder_identity in {None, "", SHARDER_IDENTITY}


def was_released(lease: Lease) -> bool:
    """Return whether the shard gave the Lease up itself.

    While the leader reserves a released Lease, its acquireTime stays before its renewTime; in a
    Lease that the leader took over, both are equal.
    """
    spec = lease.spec
    if spec.holder_identity == SHARDER_IDENTITY:
        return parse_time(spec.acquire_time) != parse_time(spec.renew_time)
    return is_given_up(lease)


def is_complete(lease: Lease) -> bool:
    """Return whether the Lease has a duration and both times, and these are valid."""
    spec = lease.spec
    return (
        spec.lease_duration_seconds is not None
        and parse_time(spec.acquire_time) is not None
        and parse_time(spec.renew_time) is not None
    )


def duration_of(lease: Lease) -> timedelta:
    """Return the Lease's duration; the default if it is absurd or the Lease is incomplete."""
    seconds = lease.spec.lease_duration_seconds
    if seconds is None or not is_complete(lease):
        return DEFAULT_DURATION
    # A Lease that we took over lasts twice as long as the shard's did, so its limit is doubled.
    if not MIN_DURATION_SECONDS <= seconds <= 2 * MAX_DURATION_SECONDS:
        return DEFAULT_DURATION
    return timedelta(seconds=seconds)


def stops_after(lease: Lease) -> float:
    """Return for how many seconds the shard might work after its last renewal."""
    return SILENT_DURATIONS * duration_of(lease).total_seconds()


def age_at(lease: Lease, now: datetime) -> timedelta:
    """Return the time since the last renewal; the default duration if the Lease is incomplete."""
    renewed = parse_time(lease.spec.renew_time) if is_complete(lease) else None
    return DEFAULT_DURATION if renewed is None else now - renewed

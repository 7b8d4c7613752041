"""The state of a shard, by its Lease (docs/protocol.md, "Shards and their Leases").

There are two judgements, kept apart on purpose.  `state_of` reads the times in the Lease, which is
all that a single read can show, for example to the command line.  `ObservedLease` in `observed.py`
is how long this process has watched the Lease unchanged, on its own clock.
"""

from datetime import datetime, timedelta
from enum import StrEnum

from sharder.core.api.lease import Lease, parse_time
from sharder.core.names import SHARDER_IDENTITY

DEFAULT_DURATION = timedelta(seconds=15)
"""client-go's default, used if a Lease has no duration."""

ORPHANED_AFTER = timedelta(seconds=60)
"""How long a dead Lease is kept after it has expired, as in the reference."""

MIN_DURATION_SECONDS, MAX_DURATION_SECONDS = 1, 3600
"""A duration outside this range is a mistake or an attack: the Lease is invalid."""


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
    if age >= 2 * duration:
        return ShardState.UNCERTAIN
    return ShardState.EXPIRED if age >= duration else ShardState.READY


def is_held(lease: Lease) -> bool:
    """Return whether the shard itself holds the Lease: the holder is the Lease's name."""
    return bool(lease.spec.holder_identity) and lease.spec.holder_identity == lease.metadata.name


def is_given_up(lease: Lease) -> bool:
    """Return whether no shard works under this Lease: its shard released it, or we took it."""
    return lease.spec.holder_identity in {None, "", SHARDER_IDENTITY}


def is_complete(lease: Lease) -> bool:
    """Return whether the Lease has all its times, readable."""
    spec = lease.spec
    return (
        spec.lease_duration_seconds is not None
        and parse_time(spec.acquire_time) is not None
        and parse_time(spec.renew_time) is not None
    )


def duration_of(lease: Lease) -> timedelta:
    """Return the Lease's duration; the default if it is missing, absurd or incomplete."""
    seconds = lease.spec.lease_duration_seconds
    if seconds is None or not is_complete(lease):
        return DEFAULT_DURATION
    # A Lease that we took lasts twice as long as the shard's, hence twice the limit.
    if not MIN_DURATION_SECONDS <= seconds <= 2 * MAX_DURATION_SECONDS:
        return DEFAULT_DURATION
    return timedelta(seconds=seconds)


def stops_after(lease: Lease) -> float:
    """Return for how many seconds after its last renewal the shard might work."""
    return 2 * duration_of(lease).total_seconds()


def age_at(lease: Lease, now: datetime) -> timedelta:
    """Return the time since the last renewal; the default duration if the Lease is incomplete."""
    renewed = parse_time(lease.spec.renew_time) if is_complete(lease) else None
    return DEFAULT_DURATION if renewed is None else now - renewed

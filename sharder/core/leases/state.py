"""What a Lease says about its shard (docs/protocol.md, "Shards and their Leases").

Two judgements, on purpose apart.  `state_of` reads the times in the Lease: all that somebody has
who looks once, such as the command line.  `ObservedLease` is how long this process has watched the
Lease stand still, on its own clock: the running service goes by that, because `renew_time` is
another machine's clock.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from sharder.core.api.lease import Lease, parse_time
from sharder.core.names import SHARDER_IDENTITY, is_label_value

DEFAULT_DURATION = timedelta(seconds=15)
"""client-go's default, used where a Lease does not name its own."""

ORPHANED_AFTER = timedelta(seconds=60)
"""How long a dead Lease is kept after it ran out, as in the reference."""

MIN_DURATION_SECONDS, MAX_DURATION_SECONDS = 1, 3600
"""Durations outside this range are a mistake or an attack: the Lease is invalid."""


class ShardState(StrEnum):
    """How a shard is, healthiest first; the values stand in the Lease's state label."""

    READY = "ready"
    EXPIRED = "expired"
    UNCERTAIN = "uncertain"
    DEAD = "dead"
    ORPHANED = "orphaned"


HEALTHIEST_FIRST = tuple(ShardState)
"""The states in their order."""


def state_of(lease: Lease, now: datetime) -> ShardState:
    """Return what the times in the Lease say at `now` (aware).

    A Lease that lacks one of its times is judged as expiring now, with the default duration.
    """
    age, duration = _age(lease, now), duration_of(lease)
    if not is_held(lease):
        return ShardState.DEAD if age < duration + ORPHANED_AFTER else ShardState.ORPHANED
    if age >= 2 * duration:
        return ShardState.UNCERTAIN
    return ShardState.EXPIRED if age >= duration else ShardState.READY


def is_held(lease: Lease) -> bool:
    """Tell whether the shard itself holds the Lease: the holder is the Lease's name."""
    return bool(lease.spec.holder_identity) and lease.spec.holder_identity == lease.metadata.name


def is_given_up(lease: Lease) -> bool:
    """Tell whether nobody works under this Lease: the shard released it, or we took it."""
    return lease.spec.holder_identity in {None, "", SHARDER_IDENTITY}


def duration_of(lease: Lease) -> timedelta:
    """Return the Lease's duration; the default where it is missing, absurd or incomplete."""
    seconds = lease.spec.lease_duration_seconds
    if seconds is None or not _is_complete(lease):
        return DEFAULT_DURATION
    # A Lease of ours lasts twice as long as the shard's, hence twice the limit.
    if not MIN_DURATION_SECONDS <= seconds <= 2 * MAX_DURATION_SECONDS:
        return DEFAULT_DURATION
    return timedelta(seconds=seconds)


def problem_of(lease: Lease) -> str | None:
    """Return why the Lease makes no shard, None if it does.

    The name must be a label value, for it becomes the owner label of objects: a longer one would
    have the API server refuse them.
    """
    if not is_label_value(lease.metadata.name):
        return "its name is not a label value (at most 63 characters of A-Z a-z 0-9 - _ .)"
    if lease.metadata.name == SHARDER_IDENTITY:
        return "its name is reserved for the sharder"
    if not _is_complete(lease):
        return "acquireTime, renewTime or leaseDurationSeconds is missing or unreadable"
    seconds = lease.spec.lease_duration_seconds or 0
    if lease.spec.holder_identity == SHARDER_IDENTITY:
        return None  # ours lasts twice as long as the shard's did
    if not MIN_DURATION_SECONDS <= seconds <= MAX_DURATION_SECONDS:
        return f"leaseDurationSeconds must be {MIN_DURATION_SECONDS} to {MAX_DURATION_SECONDS}"
    return None


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """A Lease and since when (monotonic seconds) this process has seen its spec unchanged."""

    lease: Lease
    since: float
    renewed: bool = False
    """Whether it has been seen to change: then the shard works, whatever its clock says."""

    def then(self, lease: Lease, at: float) -> "ObservedLease":
        """Return the sighting after `lease` was seen at `at`.

        Only the spec counts: metadata changes when we write the state label.
        """
        if lease.spec == self.lease.spec:
            return replace(self, lease=lease)
        return ObservedLease(lease, at, renewed=True)

    def anew(self, at: float) -> "ObservedLease":
        """Return the sighting for which all silence before `at` counts for nothing."""
        return replace(self, since=at)

    def silent_at(self) -> float:
        """Return when the shard has been silent for so long that its Lease may be taken."""
        return self.since + 2 * duration_of(self.lease).total_seconds()

    def state(self, now: datetime, monotonic: float) -> ShardState:
        """Return how the shard is, for its state label; nothing is taken from it because of that.

        A held Lease is judged by its silence alone once it has been seen to be renewed; until
        then the times in it count too.
        """
        told = state_of(self.lease, now)
        if not is_held(self.lease):
            return told
        if self.is_silent(monotonic):
            return ShardState.UNCERTAIN
        seen = ShardState.EXPIRED if monotonic >= self._expired_at() else ShardState.READY
        return seen if self.renewed else max(seen, told, key=HEALTHIEST_FIRST.index)

    def is_silent(self, monotonic: float) -> bool:
        """Tell whether the shard has been watched not to renew for so long that it is dead."""
        return is_held(self.lease) and monotonic >= self.silent_at()

    def state_changes_in(self, now: datetime, monotonic: float) -> float | None:
        """Return after how many seconds the state changes if nobody writes, None if never."""
        waits = [] if self.renewed and is_held(self.lease) else self._told_waits(now)
        if is_held(self.lease):
            waits += [self._expired_at() - monotonic, self.silent_at() - monotonic]
        return min((wait for wait in waits if wait > 0), default=None)

    def _told_waits(self, now: datetime) -> list[float]:
        """Return after how many seconds the times in the Lease make it another state."""
        if not _is_complete(self.lease):
            return []
        duration, age = duration_of(self.lease), _age(self.lease, now)
        edges = (duration, 2 * duration) if is_held(self.lease) else (duration + ORPHANED_AFTER,)
        return [(edge - age).total_seconds() for edge in edges]

    def _expired_at(self) -> float:
        return self.since + duration_of(self.lease).total_seconds()


def _is_complete(lease: Lease) -> bool:
    spec = lease.spec
    return (
        spec.lease_duration_seconds is not None
        and parse_time(spec.acquire_time) is not None
        and parse_time(spec.renew_time) is not None
    )


def _age(lease: Lease, now: datetime) -> timedelta:
    renewed = parse_time(lease.spec.renew_time) if _is_complete(lease) else None
    return DEFAULT_DURATION if renewed is None else now - renewed

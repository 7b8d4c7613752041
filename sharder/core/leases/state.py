"""The state of a shard, by its Lease (docs/protocol.md, "Shards and their Leases").

There are two judgements, kept apart on purpose.  `state_of` reads the times in the Lease, which is
all that a single read can show, for example to the command line.  `ObservedLease` is how long this
process has watched the Lease unchanged, on its own clock.  The running service uses the second,
because `renew_time` is another machine's clock.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from sharder.core.api.lease import Lease, parse_time
from sharder.core.names import SHARDER_IDENTITY, is_label_value

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
    age, duration = _age(lease, now), duration_of(lease)
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


def duration_of(lease: Lease) -> timedelta:
    """Return the Lease's duration; the default if it is missing, absurd or incomplete."""
    seconds = lease.spec.lease_duration_seconds
    if seconds is None or not _is_complete(lease):
        return DEFAULT_DURATION
    # A Lease that we took lasts twice as long as the shard's, hence twice the limit.
    if not MIN_DURATION_SECONDS <= seconds <= 2 * MAX_DURATION_SECONDS:
        return DEFAULT_DURATION
    return timedelta(seconds=seconds)


def stops_after(lease: Lease) -> float:
    """Return for how many seconds after its last renewal the shard might work."""
    return 2 * duration_of(lease).total_seconds()


def problem_of(lease: Lease) -> str | None:
    """Return why the Lease makes no shard, None if it makes one.

    The name must be a label value, because it becomes the owner label of objects: the API server
    rejects objects with a longer one.
    """
    if not is_label_value(lease.metadata.name):
        return "its name is not a valid label value (at most 63 characters of A-Z a-z 0-9 - _ .)"
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
    """A Lease, and since when (monotonic seconds) this process has seen its spec unchanged."""

    lease: Lease
    since: float
    renewed: bool = False
    """Whether it was seen to change: then the shard works, whatever its clock shows."""

    def then(self, lease: Lease, at: float) -> "ObservedLease":
        """Return the observation after `lease` was seen at `at`.

        Only the spec counts, because metadata changes when we write the state label.
        """
        if lease.spec == self.lease.spec:
            return replace(self, lease=lease)
        return ObservedLease(lease, at, renewed=True)

    def anew(self, at: float) -> "ObservedLease":
        """Return the observation without any silence before `at`."""
        return replace(self, since=at)

    def silent_at(self) -> float:
        """Return when the shard has been silent long enough for its Lease to be taken."""
        return self.since + stops_after(self.lease)

    def kept_until(self) -> float:
        """Return until when a Lease without its holder is kept, whatever its times say."""
        return self.since + (duration_of(self.lease) + ORPHANED_AFTER).total_seconds()

    def state(self, now: datetime, monotonic: float) -> ShardState:
        """Return the value of the shard's state label; it does not lose objects because of it.

        Once a held Lease was seen to be renewed, only its silence counts; until then the times in
        it count too.
        """
        if not is_held(self.lease):
            return state_of(self.lease, now)
        if self.is_silent(monotonic):
            return ShardState.UNCERTAIN
        seen = ShardState.EXPIRED if monotonic >= self._expired_at() else ShardState.READY
        if self.renewed:
            return seen
        return max(seen, state_of(self.lease, now), key=HEALTHIEST_FIRST.index)

    def is_silent(self, monotonic: float) -> bool:
        """Return whether the shard was watched for two durations without a renewal: it is dead."""
        return is_held(self.lease) and monotonic >= self.silent_at()

    def state_changes_in(self, now: datetime, monotonic: float) -> float | None:
        """Return in how many seconds the state changes, or a Lease can be deleted; None: never."""
        waits = [] if self.renewed and is_held(self.lease) else self._waits_by_times(now)
        edges = (
            (self._expired_at(), self.silent_at()) if is_held(self.lease) else (self.kept_until(),)
        )
        waits += [edge - monotonic for edge in edges]
        return min((wait for wait in waits if wait > 0), default=None)

    def _waits_by_times(self, now: datetime) -> list[float]:
        """Return in how many seconds the times in the Lease lead to another state."""
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

"""The state of a shard by its Lease, and whether the Lease makes one.

There are two judgements of a state, and they are separate on purpose.  `state_of` reads the times
in the Lease.  A single read, such as one by the command line, shows nothing else.  The running
service judges an `ObservedLease` by how long it has seen the Lease unchanged, on its own clock,
because `renew_time` comes from the clock of another machine.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec.structs import replace

from sharder.core.api.lease import Lease, parse_time
from sharder.core.names import SHARDER_IDENTITY, STATE_LABEL, is_label_value

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


def problem_of(lease: Lease, namespaces: Collection[str] = ()) -> str | None:
    """Return why the Lease makes no shard, None if it makes one; no `namespaces` are all.

    The name must be a label value, because it becomes the owner label of objects: otherwise the
    API server would reject the objects.
    """
    if namespaces and lease.metadata.namespace not in namespaces:
        return f"the ring's spec.shardNamespaces allows only {', '.join(sorted(namespaces))}"
    if not is_label_value(lease.metadata.name):
        return "its name is not a valid label value (at most 63 characters of A-Z a-z 0-9 - _ .)"
    if lease.metadata.name == SHARDER_IDENTITY:
        return "its name is reserved for the sharder"
    if not is_complete(lease):
        return "acquireTime, renewTime or leaseDurationSeconds is missing or unreadable"
    seconds = lease.spec.lease_duration_seconds or 0
    if lease.spec.holder_identity == SHARDER_IDENTITY:
        return None  # A Lease that we took over lasts twice as long as the shard's did.
    if not MIN_DURATION_SECONDS <= seconds <= MAX_DURATION_SECONDS:
        return f"leaseDurationSeconds must be {MIN_DURATION_SECONDS} to {MAX_DURATION_SECONDS}"
    return None


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """A Lease, and the time (monotonic seconds) since which its spec has not changed."""

    lease: Lease
    since: float
    renewed: bool = False
    """Whether its spec was seen to change: then the shard works, even if its clock is wrong."""
    worked: float | None = None
    """When its shard was last seen to work, once we saw that it has given the Lease up."""

    def then(self, lease: Lease, at: float) -> "ObservedLease":
        """Return the observation after `lease` was seen at `at`.

        Only a change of the spec counts, because our own writes of the state label are no renewal.
        """
        if lease.spec == self.lease.spec:
            return ObservedLease(lease, self.since, renewed=self.renewed, worked=self.worked)
        worked = self.worked  # while we reserve the Lease too
        if not is_given_up(self.lease):
            worked = at if was_released(lease) else self.since
        return ObservedLease(lease, at, renewed=True, worked=worked)

    def is_merely_renewed(self, lease: Lease, at: float) -> bool:
        """Return whether `lease`, seen at `at`, differs only by a renewal that came in time.

        Its state was READY and remains READY, and its label says so.  So nothing that depends on
        the Lease changes.
        """
        meta, spec = self.lease.metadata, self.lease.spec
        return (
            self.renewed
            and is_held(lease)
            and at < self._expired_at()
            and meta.label(STATE_LABEL) == ShardState.READY
            and lease.spec == replace(spec, renew_time=lease.spec.renew_time)
            and lease.metadata == replace(meta, resource_version=lease.metadata.resource_version)
            and problem_of(self.lease) is problem_of(lease) is None
        )

    def silent_at(self) -> float:
        """Return when the Lease can be taken, if the shard does not renew it before."""
        return self.since + stops_after(self.lease)

    def kept_until(self) -> float:
        """Return until when a Lease that its shard does not hold is kept, whatever its times."""
        return self.since + (duration_of(self.lease) + ORPHANED_AFTER).total_seconds()

    def state(self, now: datetime, monotonic: float) -> ShardState:
        """Return the value of the shard's state label, which does not decide about its objects.

        Once a held Lease was seen to be renewed, only the time without a renewal counts.  Until
        then, the times in the Lease count too.
        """
        if not is_held(self.lease):
            return state_of(self.lease, now)
        if self.is_silent(monotonic):
            return ShardState.UNCERTAIN
        seen = ShardState.EXPIRED if monotonic >= self._expired_at() else ShardState.READY
        if self.renewed:
            return seen
        return max(seen, state_of(self.lease, now), key=tuple(ShardState).index)

    def is_silent(self, monotonic: float) -> bool:
        """Return whether the shard has not renewed for two durations, and so is dead."""
        return is_held(self.lease) and monotonic >= self.silent_at()

    def state_changes_in(self, now: datetime, monotonic: float) -> float | None:
        """Return the seconds until the state changes or the Lease can be deleted; None: never."""
        duration = duration_of(self.lease)
        held = (duration, SILENT_DURATIONS * duration)
        edges = held if is_held(self.lease) else (duration + ORPHANED_AFTER,)
        age = age_at(self.lease, now)
        waits = [self.since + edge.total_seconds() - monotonic for edge in edges]
        waits += [(edge - age).total_seconds() for edge in edges]
        return min((wait for wait in waits if wait > 0), default=None)

    def _expired_at(self) -> float:
        return self.since + duration_of(self.lease).total_seconds()

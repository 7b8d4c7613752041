"""A Lease as this process has watched it (docs/protocol.md, "Shards and their Leases").

The running service judges a Lease by how long it has not changed, on the clock of the service,
because `renew_time` comes from the clock of another machine.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from sharder.core.api.lease import Lease
from sharder.core.leases.state import (
    HEALTHIEST_FIRST,
    ORPHANED_AFTER,
    SILENT_DURATIONS,
    ShardState,
    age_at,
    duration_of,
    is_complete,
    is_held,
    state_of,
    stops_after,
)


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """A Lease, and the time (monotonic seconds) since which its spec has not changed."""

    lease: Lease
    since: float
    renewed: bool = False
    """Whether its spec was seen to change: then the shard works, even if its clock is wrong."""

    def then(self, lease: Lease, at: float) -> "ObservedLease":
        """Return the observation after `lease` was seen at `at`.

        Only a change of the spec counts, because our own writes of the state label are no renewal.
        """
        if lease.spec == self.lease.spec:
            return replace(self, lease=lease)
        return ObservedLease(lease, at, renewed=True)

    def anew(self, at: float) -> "ObservedLease":
        """Return the same observation, as if the spec had last changed at `at`."""
        return replace(self, since=at)

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
        return max(seen, state_of(self.lease, now), key=HEALTHIEST_FIRST.index)

    def is_silent(self, monotonic: float) -> bool:
        """Return whether the shard has not renewed for two durations, and so is dead."""
        return is_held(self.lease) and monotonic >= self.silent_at()

    def state_changes_in(self, now: datetime, monotonic: float) -> float | None:
        """Return the seconds until the state changes or the Lease can be deleted; None: never."""
        waits = [] if self.renewed and is_held(self.lease) else self._waits_by_times(now)
        edges = (
            (self._expired_at(), self.silent_at()) if is_held(self.lease) else (self.kept_until(),)
        )
        waits += [edge - monotonic for edge in edges]
        return min((wait for wait in waits if wait > 0), default=None)

    def _waits_by_times(self, now: datetime) -> list[float]:
        """Return in how many seconds the state changes by the times in the Lease."""
        if not is_complete(self.lease):
            return []
        duration, age = duration_of(self.lease), age_at(self.lease, now)
        silent, kept = SILENT_DURATIONS * duration, duration + ORPHANED_AFTER
        edges = (duration, silent) if is_held(self.lease) else (kept,)
        return [(edge - age).total_seconds() for edge in edges]

    def _expired_at(self) -> float:
        return self.since + duration_of(self.lease).total_seconds()

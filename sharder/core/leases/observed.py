"""A Lease as this process has watched it (docs/protocol.md, "Shards and their Leases").

The running service judges by how long a Lease was watched unchanged, on its own clock, because
`renew_time` is another machine's clock.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from sharder.core.api.lease import Lease
from sharder.core.leases.state import (
    HEALTHIEST_FIRST,
    ORPHANED_AFTER,
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
        if not is_complete(self.lease):
            return []
        duration, age = duration_of(self.lease), age_at(self.lease, now)
        edges = (duration, 2 * duration) if is_held(self.lease) else (duration + ORPHANED_AFTER,)
        return [(edge - age).total_seconds() for edge in edges]

    def _expired_at(self) -> float:
        return self.since + duration_of(self.lease).total_seconds()

"""A Lease as this process has watched it (docs/protocol.md, "Shards and their Leases").

The running service judges a Lease by how long it has not changed, on the clock of the service,
because `renew_time` comes from the clock of another machine.
"""

from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from sharder.core.api.lease import Lease
from sharder.core.leases.state import (
    HEALTHIEST_FIRST,
    ORPHANED_AFTER,
    SILENT_DURATIONS,
    ShardState,
    age_at,
    duration_of,
    is_held,
    problem_of,
    state_of,
    stops_after,
)
from sharder.core.names import STATE_LABEL


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
            return ObservedLease(lease, self.since, renewed=self.renewed)
        return ObservedLease(lease, at, renewed=True)

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

    def anew(self, at: float) -> "ObservedLease":
        """Return the same observation, as if the spec had last changed at `at`."""
        return ObservedLease(self.lease, at, renewed=self.renewed)

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
        duration = duration_of(self.lease)
        held = (duration, SILENT_DURATIONS * duration)
        edges = held if is_held(self.lease) else (duration + ORPHANED_AFTER,)
        age = age_at(self.lease, now)
        waits = [self.since + edge.total_seconds() - monotonic for edge in edges]
        waits += [(edge - age).total_seconds() for edge in edges]
        return min((wait for wait in waits if wait > 0), default=None)

    def _expired_at(self) -> float:
        return self.since + duration_of(self.lease).total_seconds()

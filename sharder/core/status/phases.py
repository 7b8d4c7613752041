"""The phase of each shard of a ring: its state in the words of docs/concepts.md."""

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum

from sharder.core.api.lease import Lease
from sharder.core.leases.membership import Members, Standing, standing_by
from sharder.core.leases.state import ShardState, is_held, state_of, was_released
from sharder.core.leases.validity import problem_of
from sharder.core.names import ShardName


class ShardPhase(StrEnum):
    """What a shard does at present."""

    READY = "ready"
    LATE = "late"
    """It has not renewed its Lease in time; it keeps its objects."""
    LEAVING = "leaving"
    """Its Lease is invalid: its objects are drained."""
    MISSING = "missing"
    """It might be working, but holds no Lease: its objects stay until it has surely stopped."""
    LOST = "lost"
    """It stopped renewing, and the sharder took its Lease."""
    LEFT = "left"
    """It released its Lease."""

    @property
    def owns(self) -> bool:
        """Whether the objects on it have an available owner."""
        return self is ShardPhase.READY or self is ShardPhase.LATE

    @property
    def is_gone(self) -> bool:
        """Whether its objects are reassigned at once."""
        return self is ShardPhase.LOST or self is ShardPhase.LEFT


def phases_of(members: Members, before: Collection[ShardName] = ()) -> dict[ShardName, ShardPhase]:
    """Return the phase of every shard that has a valid Lease or might be working.

    The shards of `before` might also be working, unless they are known to be gone.
    """
    leases = leases_of(members)
    present = {
        shard
        for shard in {*members.standings, *before}
        if members.standing_of(shard) is not Standing.GONE
    }
    return {
        name: _phase_in(members, name, leases.get(name)) for name in sorted({*leases, *present})
    }


def phase_of(lease: Lease, now: datetime, problem: str | None = None) -> ShardPhase:
    """Return the phase by one read of the Lease, whose times are those of the shard's clock.

    `problem` is why the ring ignores the Lease, if that is known.
    """
    is_on_time = state_of(lease, now) is ShardState.READY
    standing = standing_by(lease, problem or problem_of(lease))
    return _phase(standing, lease, is_on_time=is_on_time)


def leases_of(members: Members) -> dict[ShardName, Lease]:
    """Return the valid Lease of each shard; of several Leases, the held one."""
    valid = sorted(members.validity.valid, key=is_held)
    return {ShardName(lease.metadata.name): lease for lease in valid}


def _phase_in(members: Members, name: ShardName, lease: Lease | None) -> ShardPhase:
    shard = members.shards.get(name)
    return _phase(members.standing_of(name), lease, is_on_time=shard is None or shard.ready)


def _phase(standing: Standing, lease: Lease | None, *, is_on_time: bool) -> ShardPhase:
    match standing:
        case Standing.AVAILABLE:
            return ShardPhase.READY if is_on_time else ShardPhase.LATE
        case Standing.LEAVING:
            return ShardPhase.LEAVING
        case Standing.MISSING:
            return ShardPhase.MISSING
        case Standing.GONE:  # pragma: no branch: there is no other standing, as mypy checks
            has_left = lease is not None and was_released(lease)
            return ShardPhase.LEFT if has_left else ShardPhase.LOST

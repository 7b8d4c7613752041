"""Care for the Leases of shards: show their state, take over from the silent, bury the dead.

Only the leader runs this (docs/protocol.md, "Shards and their Leases").  Every write carries the
resourceVersion that it was decided from, so that a shard which renews at the last moment wins.
"""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from sharder.api.lease import Lease, format_time
from sharder.api.meta import Json
from sharder.clock import Clock
from sharder.controllers.world import World
from sharder.errors import Conflict, NotFound, Unavailable
from sharder.leases import (
    ShardState,
    Sighting,
    duration_of,
    is_held,
    next_state_at,
    problem_of,
    state_of,
)
from sharder.membership import ring_of
from sharder.names import SHARDER_IDENTITY, STATE_LABEL, ObjectRef
from sharder.ports import Writable

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Take:
    """Take the Lease: its shard has been silent for two durations."""


@dataclass(frozen=True, slots=True)
class Bury:
    """Delete the Lease: its shard has been dead for a minute."""


@dataclass(frozen=True, slots=True)
class Show:
    """Write the state into the Lease's label, where it differs."""

    state: ShardState


Care: TypeAlias = Take | Bury | Show


def care_for(sighting: Sighting, now: datetime, monotonic: float) -> Care:
    """Return what a valid Lease needs.

    The times in the Lease decide what is shown and when it is deleted.  Whether it is taken
    depends only on how long it was watched standing still: another machine's clock may be wrong.
    """
    state = state_of(sighting.lease, now)
    if is_held(sighting.lease) and monotonic >= sighting.silent_at():
        return Take()
    return Bury() if state is ShardState.ORPHANED else Show(state)


def look_again_in(sighting: Sighting, now: datetime, monotonic: float) -> float | None:
    """Return the seconds until the Lease may need something else if nobody writes it."""
    edge = next_state_at(sighting.lease, now)
    waits = [] if edge is None else [edge.total_seconds()]
    if is_held(sighting.lease):
        waits.append(sighting.silent_at() - monotonic)
    return min((wait for wait in waits if wait > 0), default=None)


def taken(lease: Lease, now: datetime) -> Json:
    """Return the patch with which the sharder takes a Lease, for twice its duration."""
    doubled = int((2 * duration_of(lease)) / timedelta(seconds=1))
    return {
        "metadata": {
            "resourceVersion": lease.metadata.resource_version,
            "labels": {STATE_LABEL: ShardState.DEAD},
        },
        "spec": {
            "holderIdentity": SHARDER_IDENTITY,
            "leaseDurationSeconds": doubled,
            "acquireTime": format_time(now),
            "renewTime": format_time(now),
            "leaseTransitions": (lease.spec.lease_transitions or 0) + 1,
        },
    }


class LeaseController:
    """Reconciles one Lease at a time, by namespace and name."""

    def __init__(self, *, world: World, leases: Writable[Lease], clock: Clock) -> None:
        self._world = world
        self._leases = leases
        self._clock = clock
        self._outages: dict[ObjectRef, float] = {}
        """When a write of a Lease last found no working API server (monotonic seconds)."""

    async def reconcile(self, ref: ObjectRef) -> float | None:
        """Do what the Lease needs now; return in how many seconds to look again.

        A lost race needs nothing: the write that won comes as an event.
        """
        sighting = self._sighting(ref)
        if sighting is None or self._world.snapshot(ring_of(sighting.lease)) is None:
            return None
        if problem_of(sighting.lease) is not None:
            return None
        now, monotonic = self._clock.now(), self._clock.monotonic()
        try:
            await self._carry_out(care_for(sighting, now, monotonic), sighting.lease, now)
        except (Conflict, NotFound):
            return None
        except Unavailable:
            self._outages[ref] = self._clock.monotonic()
            raise
        return look_again_in(sighting, now, monotonic)

    def _sighting(self, ref: ObjectRef) -> Sighting | None:
        """Return what was seen of the Lease; while we cannot write it, it cannot be renewed."""
        sighting = self._world.membership.sighting(ref)
        if sighting is None:
            self._outages.pop(ref, None)
            return None
        return Sighting(sighting.lease, max(sighting.since, self._outages.get(ref, 0.0)))

    async def _carry_out(self, care: Care, lease: Lease, now: datetime) -> None:
        meta = lease.metadata
        fields = {"ring": ring_of(lease), "shard": meta.name}
        match care:
            case Take():
                await self._leases.patch(meta.ref, taken(lease, now))
                _log.info("shard is dead, took its lease", extra=fields)
            case Bury():
                await self._leases.delete(
                    meta.ref, uid=meta.uid, resource_version=meta.resource_version
                )
                _log.info("deleted orphaned lease", extra=fields)
            case Show(state) if meta.label(STATE_LABEL) != state:
                await self._leases.patch(meta.ref, _shown(lease, state))
                _log.info("shard changed state", extra={**fields, "why": str(state)})
            case Show():
                pass


def _shown(lease: Lease, state: ShardState) -> Json:
    return {
        "metadata": {
            "resourceVersion": lease.metadata.resource_version,
            "labels": {STATE_LABEL: state},
        }
    }

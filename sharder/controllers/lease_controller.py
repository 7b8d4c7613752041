"""Reconcile the Leases of shards: write states, take over silent Leases, delete orphaned ones.

Only the leader runs this (docs/protocol.md, "Shards and their Leases").  Every write carries the
resourceVersion on which its decision was based, so a shard that renews at the last moment wins.
"""

import logging
from datetime import datetime
from math import inf

from msgspec import to_builtins

from sharder.controllers.annotation_warnings import MALFORMED
from sharder.controllers.ports import Ports
from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json
from sharder.core.errors import Conflict, NotFound, Unavailable
from sharder.core.leases.election import taken
from sharder.core.leases.membership import ring_of
from sharder.core.leases.shard import invalid_annotations
from sharder.core.leases.state import ObservedLease, ShardState, duration_of, problem_of
from sharder.core.leases.validity import MAX_LEASES
from sharder.core.names import SHARDER_IDENTITY, STATE_LABEL, ObjectRef
from sharder.runtime.error_log import Once

_log = logging.getLogger(__name__)


CONFLICT_SECONDS = 1.0
"""Seconds from a conflict until the Lease is reconciled again, unless its event comes earlier."""

MAX_REPORTED = 2 * MAX_LEASES
"""Limit on the remembered invalid Leases with an Event: more forged Leases get no Event."""


class LeaseController:
    """Reconciles one Lease at a time, by namespace and name."""

    def __init__(self, ports: Ports) -> None:
        self._cache = ports.cache
        self._leases = ports.leases
        self._recorder = ports.recorder
        self._clock = ports.clock
        self._reported = Once[ObjectRef](MAX_REPORTED)
        """Problems of Leases and of their annotations that have an Event."""

    async def reconcile(self, ref: ObjectRef) -> float | None:
        """Do what the Lease needs now; return the seconds until the next reconcile.

        After a lost race the other write arrives as an event, but not every conflict is one: the
        API server or a webhook can refuse a write so.
        """
        observed = self._cache.membership.observed(ref)
        if observed is None:
            self._reported.forget(ref)
            return None
        snapshot = self._cache.snapshot(ring_of(observed.lease))
        if snapshot is None:
            return None
        # The snapshot can be older than the Lease.
        problem = snapshot.members.validity.problems.get(ref) or problem_of(
            observed.lease, snapshot.ring.spec.shard_namespaces
        )
        await self._report(observed.lease, problem)
        if problem is not None:
            return None
        try:
            return await self._care_for(observed)
        except Conflict:
            return CONFLICT_SECONDS
        except NotFound:
            await self._cache.note_absence(ref)
            return None

    async def _care_for(self, observed: ObservedLease) -> float | None:
        limit, (now, monotonic) = inf, self._times()
        state = observed.state(now, monotonic)
        if observed.is_silent(monotonic) or state is ShardState.EXPIRED:
            observed = await self._confirm(observed.lease)
            limit, (now, monotonic) = _max_wait(observed.lease), self._times()
        await self._carry_out(observed, now, monotonic)
        again = min(observed.state_changes_in(now, monotonic) or inf, limit)
        return None if again == inf else again

    def _times(self) -> tuple[datetime, float]:
        return self._clock.now(), self._clock.monotonic()

    async def _confirm(self, lease: Lease) -> ObservedLease:
        """Confirm by a read that the shard is silent, not the API server; return its Lease.

        The read is repeated while a Lease is expired.  So time without an answer from the API
        server is known and does not count as the silence of a shard, and a write of ours that
        waited for the API server cannot overtake renewals that waited too.

        Raises:
            Conflict: the shard has renewed, and our watch has not shown it yet.
            Unavailable: there was no answer, or it was late.
        """
        ref, asked = lease.metadata.ref, self._clock.monotonic()
        try:
            present = await self._leases.get(ref)
        except Unavailable:
            self._cache.health.called(asked, False)  # noqa: FBT003 - an observer of one flag
            raise
        waited = self._clock.monotonic() - asked
        is_late = waited > _max_wait(lease)
        self._cache.health.called(asked, not is_late)
        if is_late:
            raise Unavailable(f"the response for lease {ref} took {waited:.1f}s")
        await self._cache.note_answer(present)
        observed = self._cache.membership.observed(ref)
        if observed is None or not present.spec == lease.spec == observed.lease.spec:
            raise Conflict(f"lease {ref} was renewed")
        return observed

    async def _report(self, lease: Lease, problem: str | None) -> None:
        """Report once why the Lease is ignored, which is then neither written nor deleted.

        Of a valid Lease, report the annotations that are ignored.
        """
        ref = lease.metadata.ref
        text = problem or "; ".join(invalid_annotations(lease))
        if not text:
            self._reported.forget(ref)
        elif not self._reported.is_new(ref, text):
            return
        elif problem is None:
            await self._recorder.tell(lease, MALFORMED, text)
        else:
            fields = {"ring": ring_of(lease), "object": str(ref), "why": text}
            _log.warning("ignoring invalid lease", extra=fields)
            await self._recorder.tell(lease, "InvalidLease", f"Lease ignored: {text}")

    async def _carry_out(self, observed: ObservedLease, now: datetime, monotonic: float) -> None:
        """Take the Lease over, delete it, or show its state in its label.

        Only the time that this process observed decides whether a Lease is taken over or deleted:
        the clock of another machine can be wrong.  A released Lease is kept for some time: without
        it, the shard could return while its objects are taken.
        """
        lease, meta = observed.lease, observed.lease.metadata
        state = observed.state(now, monotonic)
        if observed.is_silent(monotonic):
            written = "took it over"
            doubled = int(2 * duration_of(lease).total_seconds())
            spec = taken(lease, identity=SHARDER_IDENTITY, now=now, seconds=doubled)
            body = {**shown(lease, ShardState.DEAD), "spec": to_builtins(spec)}
            await self._cache.note_answer(await self._leases.patch(meta.ref, body))
        elif state is ShardState.ORPHANED and monotonic >= observed.kept_until():
            written = "deleted it"
            await self._leases.delete(
                meta.ref, uid=meta.uid, resource_version=meta.resource_version
            )
        elif meta.label(STATE_LABEL) != state:
            written = f"its state is {state}"
            await self._leases.patch(meta.ref, shown(lease, state))
        else:
            return
        # At debug level, because any client can create Leases; the transitions of the ring
        # summarize them.
        fields = {"ring": ring_of(lease), "shard": meta.name, "why": written}
        _log.debug("wrote lease", extra=fields)


def _max_wait(lease: Lease) -> float:
    """Return the maximum seconds between two answers while the shard is silent."""
    return duration_of(lease).total_seconds() / 4


def shown(lease: Lease, state: ShardState) -> dict[str, Json]:
    """Return the patch that shows a state in the label of the Lease that was read."""
    return {
        "metadata": {
            "resourceVersion": lease.metadata.resource_version,
            "labels": {STATE_LABEL: state},
        }
    }

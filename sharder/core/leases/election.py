"""Who holds a Lease, and the changes that take it, keep it and release it.

The clock of another holder is never read.  How long it has not renewed is measured on our own
clock, from the moment at which we first saw the present spec.  Only the spec is compared, because
other clients change labels and annotations.

Source:
    client-go v0.36.3 `tools/leaderelection`, package comment and `tryAcquireOrRenew`.
"""

from collections.abc import Set
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from sharder.core.api.lease import Lease, LeaseSpec, format_time
from sharder.core.leases.state import ObservedLease
from sharder.core.names import (
    EVACUATE_ANNOTATION,
    EVACUATE_ON_STOP,
    POD_UID_ANNOTATION,
    PROBLEM_ANNOTATION,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTiming:
    """How long a Lease lasts and how often it is renewed; all in seconds.

    A holder that cannot renew stops at `renew_deadline`, before others can take the Lease at
    `lease_duration`.
    """

    lease_duration: int = 15
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        """Reject times with which two processes, or none, could hold the Lease."""
        if not self.lease_duration > self.renew_deadline > self.retry_period > 0:
            raise ValueError(
                "a lease needs duration > renew deadline > retry period > 0, not "
                f"{self.lease_duration}s > {self.renew_deadline:g}s > {self.retry_period:g}s: set "
                "all three"
            )


class Verdict(Enum):
    """Who holds a Lease."""

    OURS = auto()
    """The Lease is as we wrote it."""
    FREE = auto()
    """Any process can take it."""
    HELD = auto()
    """Its holder might be working."""


def judge(
    seen: ObservedLease | None,
    *,
    identity: str,
    written: Set[str],
    now: float,
    timing: LeaseTiming,
    pod_uid: str = "",
) -> Verdict:
    """Return who holds the Lease.

    Args:
        seen: The Lease, even if it was deleted since, and since when it has been unchanged, on our
            monotonic clock; None: there was none.  It counts as renewed if it appeared after our
            first read.
        identity: The name under which we hold Leases.
        written: The renew times that we might have written: the last confirmed one, and later ones
            whose answer was lost.  If the Lease has our name and any other time, another process
            uses our name.  If that process is in our own pod, and the Lease has not changed for a
            retry period, it is our predecessor and has ended, because a running process would
            have renewed the Lease.  In another or an unknown pod, the process might only be
            disconnected, and might work until its renew deadline.
        now: Our monotonic clock, in seconds.
        timing: Other processes of our name have the same retry period; a Lease without a duration
            has this one.
        pod_uid: The uid of our pod; empty: unknown.
    """
    if seen is None or not seen.lease.spec.holder_identity:
        return Verdict.FREE
    spec = seen.lease.spec
    if spec.holder_identity == identity:
        if spec.renew_time in written:
            return Verdict.OURS
        is_ours = bool(pod_uid) and seen.lease.metadata.annotation(POD_UID_ANNOTATION) == pod_uid
        if is_ours and not seen.renewed and now - seen.since >= timing.retry_period:
            return Verdict.FREE
    return Verdict.FREE if now >= runs_out_at(seen, timing) else Verdict.HELD


def runs_out_at(seen: ObservedLease, timing: LeaseTiming) -> float:
    """Return when the Lease can be taken from its holder, if that does not renew it before."""
    return seen.since + (seen.lease.spec.lease_duration_seconds or timing.lease_duration)


def taken(old: Lease | None, *, identity: str, now: datetime, seconds: int) -> LeaseSpec:
    """Return the spec with which `identity` takes a Lease, missing or not, for a duration."""
    return LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=seconds,
        acquire_time=format_time(now),
        renew_time=format_time(now),
        lease_transitions=old.spec.next_transition if old else 0,
    )


def evacuation(lease: Lease | None, *, wanted: bool) -> dict[str, str | None]:
    """Return the changes to the annotations of our Lease, empty if none is needed.

    Args:
        lease: As last seen, None if there is none.
        wanted: Whether we request an evacuation because we are about to stop.  If not, the request
            of a predecessor that was killed is withdrawn; the request of a person remains.
    """
    value = lease.metadata.annotation(EVACUATE_ANNOTATION) if lease else ""
    if wanted:
        return (
            {} if value in {"true", EVACUATE_ON_STOP} else {EVACUATE_ANNOTATION: EVACUATE_ON_STOP}
        )
    return {EVACUATE_ANNOTATION: None} if value == EVACUATE_ON_STOP else {}


def report(lease: Lease | None, problem: str) -> dict[str, str | None]:
    """Return the changes with which our Lease says why we cannot work; empty: we can."""
    known = lease.metadata.annotation(PROBLEM_ANNOTATION) if lease else ""
    return {} if problem == known else {PROBLEM_ANNOTATION: problem or None}


def released(now: datetime) -> dict[str, str | int]:
    """Return the change that releases a Lease: no holder, and a duration of one second."""
    return {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": format_time(now),
        "renewTime": format_time(now),
    }

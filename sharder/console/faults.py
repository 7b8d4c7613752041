"""The faults of a ring, with their urgency and the commands that help.  Pure.

Names come from the cluster, so the commands quote them for a shell.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from shlex import quote
from typing import Final

from sharder.console.models import Departure, Fault, Health, Severity, Shard
from sharder.console.shards import Shards
from sharder.core.api.ring import RingStatus
from sharder.core.names import RING_LABEL, drain_label
from sharder.core.plurals import counted
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.conditions import EXHAUSTED, READY, WATCHED, condition_of
from sharder.core.status.phases import ShardPhase

MAX_NAMED: Final = 3
"""Limit on the shards that one fault names and has commands for."""

WAITS: Final = timedelta(seconds=15)
"""Objects that wait this long for an owner are a fault: a handover takes a second."""

DRAINS: Final = timedelta(seconds=60)
"""Drains that are open for this long are a fault: the SDK cancels a reconcile after 10 s."""

LOST_LASTS: Final = timedelta(minutes=10)
"""How long a lost shard without objects is still reported."""

NONE_COUNTED: Final = "No objects counted yet"
"""Headline and fault of an empty ring: the page shows equal sentences only once."""

_MOST_URGENT_FIRST = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)


def faults_of(
    snapshot: RingSnapshot,
    shards: Shards,
    listed: Sequence[Shard],
    departures: Sequence[Departure],
    now: datetime,
) -> tuple[Fault, ...]:
    """Return the faults of a ring, the most urgent first."""
    faults = [
        *_of_ring(snapshot),
        *_without_shards(snapshot, shards),
        *_lost(snapshot, departures, now),
        *_of_phases(snapshot, listed),
        *_waiting(snapshot, shards, now),
        *_draining(snapshot, shards, listed, now),
        *_steered(snapshot, listed),
        *_empty(snapshot, shards),
    ]
    return tuple(sorted(faults, key=lambda fault: _MOST_URGENT_FIRST.index(fault.severity)))


def unreadable(ring: str, problem: str) -> Fault:
    """Return the fault of a ring that this release cannot decode."""
    return Fault(
        severity=Severity.CRITICAL,
        what="This release cannot read the ring",
        why=problem,
        run=(f"kubectl get controllerring {quote(ring)} -o yaml",),
    )


def health_of(faults: Sequence[Fault], *, is_moving: bool) -> Health:
    """Return the health that follows from the faults."""
    worst = faults[0].severity if faults else Severity.INFO
    if worst is Severity.CRITICAL:
        return Health.BROKEN
    if worst is Severity.WARNING:
        return Health.ATTENTION
    return Health.MOVING if is_moving else Health.OK


def headline_of(faults: Sequence[Fault], shards: Shards, *, is_moving: bool) -> str:
    """Return the sentence to read first: the worst fault, or the state of the objects."""
    if faults and faults[0].severity is not Severity.INFO:
        return faults[0].what
    objects = shards.counts.objects
    available = sum(phase.owns for phase in shards.phases.values())
    on = f"on {counted(available, 'shard')}"
    if objects is None:
        return f"Objects {on} are not counted yet"
    if is_moving:
        return f"Objects are moving; {counted(objects, 'object')} {on}"
    if not objects:
        return NONE_COUNTED
    return f"{counted(objects, 'object')} {on}, each with an owner"


def _of_ring(snapshot: RingSnapshot) -> Iterator[Fault]:
    status, ring = snapshot.ring.status, quote(snapshot.name)
    describe = (f"kubectl describe controllerring {ring}",)
    if (why := _message_if(status, READY, "False")) is not None:
        yield Fault(
            severity=Severity.CRITICAL, what="The ring is not ready", why=why, run=describe
        )
    if (why := _message_if(status, EXHAUSTED, "True")) is not None:
        yield Fault(
            severity=Severity.CRITICAL,
            what="No shard has room for more objects",
            why=why,
            run=(f"sharder shards {ring}", f"sharder plan {ring} --add 1"),
        )
    if (why := _message_if(status, WATCHED, "False")) is not None:
        yield Fault(
            severity=Severity.WARNING, what="A right to watch is missing", why=why, run=describe
        )
    problems = snapshot.members.validity.problems
    if problems:
        ref, why = min(problems.items())
        yield Fault(
            severity=Severity.WARNING,
            what=f"{counted(len(problems), 'invalid Lease')} of the ring",
            why=f"{ref}: {why}",
            run=(f"kubectl get lease -n {quote(ref.namespace)} {quote(ref.name)} -o yaml",),
        )


def _message_if(status: RingStatus, name: str, bad: str) -> str | None:
    """Return the message of a condition if its status is `bad`, else None."""
    condition = condition_of(status, name)
    return condition.message if condition is not None and condition.status == bad else None


def _without_shards(snapshot: RingSnapshot, shards: Shards) -> Iterator[Fault]:
    if snapshot.members.available:
        return
    objects = shards.counts.objects
    yield Fault(
        severity=Severity.CRITICAL if objects else Severity.WARNING,
        what="No shard is running",
        why=f"{counted(objects, 'object')} wait for one" if objects else "",
        run=(f"kubectl get leases -A -l {quote(f'{RING_LABEL}={snapshot.name}')}",),
    )


def _lost(
    snapshot: RingSnapshot, departures: Sequence[Departure], now: datetime
) -> Iterator[Fault]:
    lost = [
        each
        for each in departures
        if each.phase is ShardPhase.LOST
        and not each.returned
        and (each.remaining or now - each.at < LOST_LASTS)
    ]
    if not lost:
        return
    remaining = sum(each.remaining or 0 for each in lost)
    yield Fault(
        severity=Severity.CRITICAL if remaining else Severity.WARNING,
        what=f"{_are([each.shard for each in lost])} gone{_outcome(lost, remaining)}",
        why=f"the Lease was not renewed; the sharder took it over at {lost[0].at:%H:%M:%S} UTC",
        run=tuple(
            f"kubectl describe pod -n {quote(each.namespace)} {quote(each.shard)}"
            for each in lost[:MAX_NAMED]
            if each.namespace
        ),
    )


def _outcome(lost: Sequence[Departure], remaining: int) -> str:
    known = [each.objects for each in lost if each.objects is not None]
    if len(known) < len(lost):
        return f": {counted(remaining, 'object')} left to move" if remaining else ""
    had = counted(sum(known), "object")
    if remaining:
        return f": {remaining} of {had} wait for another shard"
    return f": {had} moved to other shards" if sum(known) else ", it had no objects"


def _names(names: Sequence[str]) -> str:
    """Return `shard a`, or `shards a, b, c and 3 more`."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"shard{'' if len(names) == 1 else 's'} {', '.join(names[:MAX_NAMED])}{more}"


def _are(names: Sequence[str]) -> str:
    """Return `Shard a is`, or `Shards a, b, c and 3 more are`."""
    return f"S{_names(names)[1:]} {'is' if len(names) == 1 else 'are'}"


def _of_phases(snapshot: RingSnapshot, listed: Sequence[Shard]) -> Iterator[Fault]:
    for phase, what, why, command in (
        (
            ShardPhase.LATE,
            "late to renew the Lease",
            "the objects move after two Lease durations of silence",
            "logs",
        ),
        (
            ShardPhase.MISSING,
            "without a Lease",
            "the Lease was deleted or is held by another client; the objects stay until the "
            "shard has surely stopped",
            "lease",
        ),
        (
            ShardPhase.LEAVING,
            "leaving",
            "the Lease is invalid, so the objects are drained",
            "lease",
        ),
    ):
        affected = [shard for shard in listed if shard.phase is phase]
        if affected:
            yield Fault(
                severity=Severity.WARNING,
                what=f"{_are([shard.name for shard in affected])} {what}",
                why=why,
                run=tuple(_inspect(shard, command) for shard in affected[:MAX_NAMED]),
            )


def _inspect(shard: Shard, command: str) -> str:
    """Return the command that shows the logs or the Lease of a shard."""
    where = f"-n {quote(shard.namespace)} {quote(shard.name)}"
    if command == "logs":
        return f"kubectl logs {where} --tail 50"
    return f"kubectl get lease {where} -o yaml"


def _waiting(snapshot: RingSnapshot, shards: Shards, now: datetime) -> Iterator[Fault]:
    since = shards.unassigned_since
    if since is None or now - since < WAITS or not snapshot.members.available:
        return
    yield Fault(
        severity=Severity.CRITICAL,
        what=f"{counted(shards.counts.unassigned or 0, 'object')} without an owner",
        why=f"since {since:%H:%M:%S} UTC",
        run=(f"sharder plan {quote(snapshot.name)}",),
    )


def _draining(
    snapshot: RingSnapshot, shards: Shards, listed: Sequence[Shard], now: datetime
) -> Iterator[Fault]:
    drains = shards.drains
    if drains.since is None or now - drains.since < DRAINS:
        return
    stuck = [s for s in listed if s.draining_since and now - s.draining_since >= DRAINS]
    by = f" by {_names([shard.name for shard in stuck])}" if stuck else ""
    resources = ",".join(sorted(str(resource.id) for resource in snapshot.resources))
    yield Fault(
        severity=Severity.WARNING,
        what=f"{counted(drains.count or 0, 'drain')} not acknowledged{by}",
        why=f"the oldest since {drains.since:%H:%M:%S} UTC; the shard might still be working",
        run=(
            f"kubectl get {quote(resources)} -A -l {quote(drain_label(snapshot.name))}",
            *(_inspect(shard, "logs") for shard in stuck[:MAX_NAMED]),
        ),
    )


def _steered(snapshot: RingSnapshot, listed: Sequence[Shard]) -> Iterator[Fault]:
    ring = quote(snapshot.name)
    if snapshot.ring.spec.movement.paused:
        yield Fault(
            severity=Severity.WARNING,
            what="Movement is paused",
            why="only objects whose shard is gone move",
            run=(f"sharder plan {ring} --resume", f"sharder resume {ring}"),
        )
    for shard in listed:
        if shard.phase.owns and (shard.evacuating or shard.cordoned):
            yield Fault(
                severity=Severity.INFO,
                what=_steered_text(shard),
                run=(f"sharder uncordon {ring} {quote(shard.name)}",),
            )


def _steered_text(shard: Shard) -> str:
    if not shard.evacuating:
        return f"Shard {shard.name} is cordoned and gets no new objects"
    left = "" if shard.objects is None else f", {counted(shard.objects, 'object')} left"
    return f"Shard {shard.name} is being evacuated{left}"


def _empty(snapshot: RingSnapshot, shards: Shards) -> Iterator[Fault]:
    ring = quote(snapshot.name)
    if not snapshot.namespaces and snapshot.cluster_scoped != {r.id for r in snapshot.resources}:
        yield Fault(
            severity=Severity.WARNING,
            what="The ring selects no namespace",
            why="label a namespace as spec.namespaceSelector says",
            run=(f"kubectl get controllerring {ring} -o jsonpath='{{.spec.namespaceSelector}}'",),
        )
    elif shards.counts.objects == 0:
        yield Fault(
            severity=Severity.INFO,
            what=NONE_COUNTED,
            why="new ones get an owner when they are created, and are counted within 30s",
            run=(f"sharder plan {ring}",),
        )

"""The faults of a ring as it is now, with their urgency and the commands that help.  Pure.

What is over is no fault: the Events say it.  Names come from the cluster, so the commands quote
them for a shell.  No command needs an object that may be gone, such as the pod of a lost shard.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from shlex import quote
from typing import Final

from sharder.console.models import Fault, Health, Shard
from sharder.console.shards import Shards
from sharder.core.names import RING_LABEL, drain_label
from sharder.core.plurals import counted
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.conditions import (
    APART,
    COVERED,
    EXHAUSTED,
    READY,
    UNOWNED,
    WATCHED,
    condition_of,
)
from sharder.core.status.phases import ShardPhase

MAX_NAMED: Final = 3
"""Limit on the shards that one fault names and has commands for."""

DRAINS: Final = timedelta(seconds=60)
"""Drains that are open for this long are a fault: the SDK cancels a reconcile after 10 s."""

NONE_COUNTED: Final = "No objects counted yet"
"""Headline and fault of an empty ring: the page shows equal sentences only once."""

_URGENCY = tuple(Health)


def faults_of(
    snapshot: RingSnapshot,
    shards: Shards,
    listed: Sequence[Shard],
    now: datetime,
    *,
    is_moving: bool,
) -> tuple[Fault, ...]:
    """Return the faults of a ring, the most urgent first.

    `is_moving` is whether an object has moved lately: then those that wait have their turn.
    """
    faults = [
        *_of_conditions(snapshot),
        *_without_shards(snapshot, shards),
        *(_lost(listed) or (() if is_moving else _waiting(snapshot))),
        *_of_phases(snapshot, listed),
        *_draining(snapshot, shards, listed, now),
        *_invalid(snapshot),
        *_steered(snapshot, listed),
        *_empty(snapshot, shards),
    ]
    return tuple(sorted(faults, key=lambda fault: _URGENCY.index(fault.health)))


def unreadable(ring: str, problem: str) -> Fault:
    """Return the fault of a ring that this release cannot decode."""
    return Fault(
        health=Health.BROKEN,
        what="This release cannot read the ring",
        why=problem,
        run=(f"kubectl get controllerring {quote(ring)} -o yaml",),
    )


def headline_of(health: Health, faults: Sequence[Fault], shards: Shards) -> str:
    """Return the sentence to read first: the worst fault, or the state of the objects."""
    if health in {Health.BROKEN, Health.ATTENTION}:
        return faults[0].what
    objects = shards.counts.objects
    on = f"on {counted(sum(phase.owns for phase in shards.phases.values()), 'shard')}"
    if objects is None:
        return f"Objects {on} are not counted yet"
    if health is Health.MOVING:
        return f"Objects are moving; {counted(objects, 'object')} {on}"
    return f"{counted(objects, 'object')} {on}, each with an owner" if objects else NONE_COUNTED


def _of_conditions(snapshot: RingSnapshot) -> Iterator[Fault]:
    ring = quote(snapshot.name)
    describe, shards = f"kubectl describe controllerring {ring}", f"sharder shards {ring}"
    for name, bad, health, what, run in (
        (READY, "False", Health.BROKEN, "The ring is not ready", describe),
        (EXHAUSTED, "True", Health.BROKEN, "No shard has room for more objects", shards),
        (WATCHED, "False", Health.ATTENTION, "A right to watch is missing", describe),
        (COVERED, "Unknown", Health.ATTENTION, "Not all objects could be counted", describe),
    ):
        condition = condition_of(snapshot.ring.status, name)
        if condition is not None and condition.status == bad:
            yield Fault(health=health, what=what, why=condition.message, run=(run,))
    if (why := _uncovered(snapshot, APART)) is not None:
        what = "Controlled objects are not on the shards of their parents"
        yield Fault(health=Health.ATTENTION, what=what, why=why, run=(describe,))


def _uncovered(snapshot: RingSnapshot, reason: str) -> str | None:
    """Return the message of the condition Covered if it is False for this reason, else None."""
    covered = condition_of(snapshot.ring.status, COVERED)
    is_so = covered is not None and (covered.status, covered.reason) == ("False", reason)
    return covered.message if covered is not None and is_so else None


def _without_shards(snapshot: RingSnapshot, shards: Shards) -> Iterator[Fault]:
    if snapshot.members.available:
        return
    objects = shards.counts.objects
    yield Fault(
        health=Health.BROKEN if objects else Health.ATTENTION,
        what="No shard is available",
        why=f"{counted(objects, 'object')} wait for one" if objects else "",
        run=(_leases(snapshot),),
    )


def _lost(listed: Sequence[Shard]) -> tuple[Fault, ...]:
    lost = [shard for shard in listed if shard.phase is ShardPhase.LOST and shard.objects]
    if not lost:
        return ()
    objects = sum(shard.objects or 0 for shard in lost)
    wait = f"{counted(objects, 'object')} wait{'s' if objects == 1 else ''}"
    fault = Fault(
        health=Health.BROKEN,
        what=f"{_are(lost)} lost: {wait} for another shard",
        why="stopped renewing, and the sharder took the Lease",
        run=tuple(_events(shard) for shard in lost[:MAX_NAMED] if shard.namespace),
    )
    return (fault,)


def _waiting(snapshot: RingSnapshot) -> Iterator[Fault]:
    if snapshot.members.available and (why := _uncovered(snapshot, UNOWNED)) is not None:
        run = (f"sharder plan {quote(snapshot.name)}",)
        yield Fault(health=Health.BROKEN, what="Objects wait for an owner", why=why, run=run)


def _of_phases(snapshot: RingSnapshot, listed: Sequence[Shard]) -> Iterator[Fault]:
    late = [shard for shard in listed if shard.phase is ShardPhase.LATE]
    if late:
        yield Fault(
            health=Health.ATTENTION,
            what=f"{_are(late)} late",
            why="has not renewed the Lease in time; the objects stay for two Lease durations",
            run=tuple(_events(shard) for shard in late[:MAX_NAMED]),
        )
    missing = [shard for shard in listed if shard.phase is ShardPhase.MISSING]
    if missing:
        yield Fault(
            health=Health.ATTENTION,
            what=f"{_are(missing)} missing",
            why="holds no Lease, but might be working: the objects stay until it has surely "
            "stopped",
            run=(_leases(snapshot),),
        )


def _draining(
    snapshot: RingSnapshot, shards: Shards, listed: Sequence[Shard], now: datetime
) -> Iterator[Fault]:
    drains = shards.drains
    if drains.since is None or now - drains.since < DRAINS:
        return
    stuck = [s for s in listed if s.draining_since and now - s.draining_since >= DRAINS]
    by = f" by {_names(stuck)}" if stuck else ""
    resources = ",".join(sorted(str(resource.id) for resource in snapshot.resources))
    yield Fault(
        health=Health.ATTENTION,
        what=f"{counted(drains.count or 0, 'drain')} not acknowledged{by}",
        why=f"the oldest since {drains.since:%H:%M:%S} UTC; the shard might still be working",
        run=(
            f"kubectl get {quote(resources)} -A -l {quote(drain_label(snapshot.name))}",
            *(
                f"kubectl logs -n {quote(shard.namespace)} {quote(shard.name)} --tail 50"
                for shard in stuck[:MAX_NAMED]
                if shard.phase is ShardPhase.READY
            ),
        ),
    )


def _invalid(snapshot: RingSnapshot) -> Iterator[Fault]:
    problems = snapshot.members.validity.problems
    if problems:
        ref, why = min(problems.items())
        yield Fault(
            health=Health.ATTENTION,
            what=f"{counted(len(problems), 'invalid Lease')} of the ring",
            why=f"{ref}: {why}",
            run=(f"kubectl get lease -n {quote(ref.namespace)} {quote(ref.name)} -o yaml",),
        )


def _steered(snapshot: RingSnapshot, listed: Sequence[Shard]) -> Iterator[Fault]:
    ring = quote(snapshot.name)
    if snapshot.ring.spec.movement.paused:
        yield Fault(
            health=Health.ATTENTION,
            what="Movement is paused",
            why="only objects whose shard is gone move",
            run=(f"sharder plan {ring} --resume", f"sharder resume {ring}"),
        )
    for shard in listed:
        if shard.phase.owns and (shard.evacuating or shard.cordoned):
            run = (f"sharder uncordon {ring} {quote(shard.name)}",)
            yield Fault(health=Health.MOVING, what=_steered_text(shard), run=run)


def _steered_text(shard: Shard) -> str:
    if not shard.evacuating:
        return f"Shard {shard.name} is cordoned and gets no new objects"
    if shard.is_empty:
        return f"Shard {shard.name} is empty: safe to stop"
    left = "" if shard.objects is None else f", {counted(shard.objects, 'object')} left"
    return f"Shard {shard.name} is being evacuated{left}"


def _empty(snapshot: RingSnapshot, shards: Shards) -> Iterator[Fault]:
    ring = quote(snapshot.name)
    if not snapshot.namespaces and snapshot.cluster_scoped != {r.id for r in snapshot.resources}:
        yield Fault(
            health=Health.ATTENTION,
            what="The ring selects no namespace",
            why="label a namespace as spec.namespaceSelector says",
            run=(f"kubectl get controllerring {ring} -o jsonpath='{{.spec.namespaceSelector}}'",),
        )
    elif shards.counts.objects == 0:
        yield Fault(
            health=Health.MOVING,
            what=NONE_COUNTED,
            why="new ones get an owner when they are created, and are counted within 30s",
            run=(f"sharder plan {ring}",),
        )


def _names(shards: Sequence[Shard]) -> str:
    """Return `shard a`, or `shards a, b, c and 3 more`."""
    names = ", ".join(shard.name for shard in shards[:MAX_NAMED])
    more = f" and {len(shards) - MAX_NAMED} more" if len(shards) > MAX_NAMED else ""
    return f"shard{'' if len(shards) == 1 else 's'} {names}{more}"


def _are(shards: Sequence[Shard]) -> str:
    """Return `Shard a is`, or `Shards a, b, c and 3 more are`."""
    return f"S{_names(shards)[1:]} {'is' if len(shards) == 1 else 'are'}"


def _events(shard: Shard) -> str:
    selector = quote(f"involvedObject.name={shard.name}")
    return f"kubectl get events -n {quote(shard.namespace)} --field-selector {selector}"


def _leases(snapshot: RingSnapshot) -> str:
    return f"kubectl get leases -A -l {quote(f'{RING_LABEL}={snapshot.name}')}"

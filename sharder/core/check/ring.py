"""The checks of rings, by their conditions, and of the Leases of their shards."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from sharder.core.api.lease import Lease, parse_time
from sharder.core.api.ring import ControllerRing, UnreadableRing
from sharder.core.api.since import short
from sharder.core.check.finding import Finding, Level, fail, ok, warn
from sharder.core.check.installation import MAX_SKEW
from sharder.core.leases.membership import Members, ring_of
from sharder.core.leases.shard import shard_of
from sharder.core.leases.state import is_held
from sharder.core.names import RingName
from sharder.core.plurals import counted
from sharder.core.status.conditions import (
    COVERED,
    EXHAUSTED,
    NO_SHARDS,
    PAUSED,
    READY,
    UNABLE,
    WATCHED,
    condition_of,
)
from sharder.core.status.phases import ShardPhase, phase_of

RING, SHARDS = "ring", "shards"

_SHOWN: Final = 10
_LONG_DRAIN: Final = timedelta(minutes=1)
"""A drain takes as long as a reconcile; most take seconds."""


class _Fault(NamedTuple):
    """What a condition reports if it does not have the right status."""

    type: str
    status: str
    level: Level
    advice: str


_FAULTS: Final = (
    _Fault(
        READY, "False", Level.FAIL, "do what the message says; docs/troubleshooting.md has more"
    ),
    _Fault(COVERED, "False", Level.WARN, "see why: sharder plan {ring}, sharder shards {ring}"),
    _Fault(COVERED, "Unknown", Level.WARN, "do what the message of Ready says"),
    _Fault(EXHAUSTED, "True", Level.WARN, "see how full they are: sharder shards {ring}"),
    _Fault(WATCHED, "False", Level.WARN, "add that rule; until then objects can be assigned late"),
    _Fault(PAUSED, "True", Level.WARN, "continue: sharder resume {ring}"),
)


def ring(ring: ControllerRing, now: datetime) -> Iterator[Finding]:
    """Yield the faults of a ring according to its status, or that it has none."""
    name = ring.name
    if isinstance(ring, UnreadableRing):
        advice = "correct the ring, or upgrade sharder if the ring is of a later version"
        yield fail(RING, f"the ring cannot be decoded: {ring.problem}", advice, ring=name)
        return
    if condition_of(ring.status, READY) is None:
        advice = "check that a replica leads"
        yield fail(RING, "the ring has no status: no leader has seen it", advice, ring=name)
        return
    findings = [*_by_conditions(ring), *_open_drains(ring, now)]
    if ring.status.observed_generation < ring.metadata.generation:
        advice = "check that a replica leads; this takes a moment after an edit"
        findings.append(warn(RING, "no leader has seen the last edit", advice, ring=name))
    yield from findings
    if not findings:
        message = f"ready, {ring.status.available_shards} of {ring.status.shards} shards available"
        yield ok(RING, message, ring=name)
    if ring.status.uncontrolled:
        yield _uncontrolled(ring)


def _uncontrolled(ring: ControllerRing) -> Finding:
    """Return how many objects of controlled resources belong to no parent: this can be right."""
    many = counted(ring.status.uncontrolled or 0, "object")
    return Finding(
        level=Level.OK,
        check=RING,
        ring=ring.name,
        message=f"{many} of controlled resources without a controller: no shard owns them",
        advice="if they were restored from a backup, let their parents adopt them",
    )


def shards(ring: ControllerRing, members: Members, now: datetime) -> Iterator[Finding]:
    """Yield the faults of a ring's Leases: ignored, not renewed, or renewed in the future."""
    validity, problems = members.validity, members.validity.problems
    findings = list[Finding]()
    for lease in sorted((*validity.leases, *validity.foreign), key=lambda each: each.metadata.ref):
        if lease.metadata.ref in problems:
            message = f"Lease {lease.metadata.ref} is ignored: {problems[lease.metadata.ref]}"
            advice = "correct the shard that holds it, or delete the Lease"
            findings.append(warn(SHARDS, message, advice, ring=ring.name))
        else:
            findings += _unable(ring.name, lease)
            findings += _late(ring.name, lease, now)
    yield from _first(findings, ring.name)
    if not members.available:
        advice = f"start shards; if they run: sharder shards {ring.name}"
        yield fail(SHARDS, "no shard is available", advice, ring=ring.name)
    elif not findings:
        many = len(members.available)
        message = f"{many} shard{'' if many == 1 else 's'} available, all Leases valid and renewed"
        yield ok(SHARDS, message, ring=ring.name)


def strangers(leases: Iterable[Lease], rings: Mapping[RingName, ControllerRing]) -> list[Finding]:
    """Return a finding for each held Lease of a ring that does not exist."""
    unknown = [
        warn(
            SHARDS,
            f"Lease {lease.metadata.ref} names the ring {ring_of(lease)}, which does not exist",
            "create the ring, or correct the name of the ring in the shard's settings",
        )
        for lease in sorted(leases, key=lambda lease: lease.metadata.ref)
        if ring_of(lease) not in rings and is_held(lease)
    ]
    return [*_first(unknown, None)]


def _by_conditions(ring: ControllerRing) -> Iterator[Finding]:
    for fault in _FAULTS:
        found = condition_of(ring.status, fault.type)
        if found is None or found.status != fault.status or found.reason == UNABLE:
            continue  # The Leases say which shards cannot work.
        yield Finding(
            level=Level.FAIL if found.reason == NO_SHARDS else fault.level,
            check=RING,
            ring=ring.name,
            message=f"{fault.type} is {found.status}: {found.message or found.reason}",
            advice=fault.advice.format(ring=ring.name),
        )


def _unable(ring: RingName, lease: Lease) -> Iterator[Finding]:
    """Yield that a shard cannot work; nobody handles its objects while it holds its Lease."""
    if problem := shard_of(lease).problem:
        name, advice = lease.metadata.name, "remove the cause: the shard then recovers by itself"
        if is_held(lease):
            yield fail(SHARDS, f"{name} keeps its objects but {problem}", advice, ring=ring)
        else:
            yield warn(SHARDS, f"{name} left: {problem}", advice, ring=ring)


def _open_drains(ring: ControllerRing, now: datetime) -> Iterator[Finding]:
    begin, many = parse_time(ring.status.oldest_drain_since), ring.status.draining or 0
    if many and begin is not None and now - begin > _LONG_DRAIN:
        age = short((now - begin).total_seconds())
        message = f"{counted(many, 'object')} draining, the oldest for {age}"
        advice = f"see which, and on which shards: sharder objects {ring.name} --draining"
        yield warn(RING, message, advice, ring=ring.name)


def _late(ring: RingName, lease: Lease, now: datetime) -> Iterator[Finding]:
    renewed, name = parse_time(lease.spec.renew_time), lease.metadata.name
    if renewed is None or not is_held(lease):
        return  # The shard has left, and the leader will delete its Lease.
    age = now - renewed
    if age < -MAX_SKEW:
        message = f"{name} renewed its Lease {-age.total_seconds():.0f}s in the future"
        yield warn(SHARDS, message, "correct the clock of its node", ring=ring)
    elif phase_of(lease, now) is ShardPhase.LATE:
        message = f"{name} has not renewed its Lease for {short(age.total_seconds())}: it is late"
        advice = "check that the shard runs, has CPU, and reaches the API server"
        yield warn(SHARDS, message, advice, ring=ring)


def _first(findings: list[Finding], ring: RingName | None) -> Iterator[Finding]:
    yield from findings[:_SHOWN]
    if len(findings) > _SHOWN:
        more = f"{counted(len(findings) - _SHOWN, 'more Lease')} with faults"
        yield warn(SHARDS, more, "fix the Leases above, and check again", ring=ring)

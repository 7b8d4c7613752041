"""What is wrong with the shards of a ring, by their phases and their Leases."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from shlex import quote
from typing import Final

import msgspec

from sharder.core.api.lease import Lease, parse_time
from sharder.core.api.ring import ControllerRing
from sharder.core.diagnosis.finding import Finding, fail, ok, warn
from sharder.core.leases.membership import Members, ring_of
from sharder.core.leases.shard import Shard, shard_of
from sharder.core.leases.state import is_held
from sharder.core.names import RING_LABEL, RingName, ShardName
from sharder.core.status.phases import WHY_MISSING, ShardPhase, leases_of
from sharder.core.texts import counted, named

SHARDS: Final = "shards"

MAX_NAMED: Final = 3
"""Limit on the shards that one finding names and has commands for."""

MAX_SKEW: Final = timedelta(seconds=5)
"""A third of the default duration of a Lease: less is harmless."""


class ShardFacts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The facts about one shard of a ring; null is unknown."""

    name: ShardName
    phase: ShardPhase
    namespace: str = ""
    objects: int | None = None
    """Objects of main resources, draining ones included."""
    draining: int | None = None
    """Open drains; null on a replica that does not lead, and of a shard that is gone."""
    draining_since: datetime | None = None
    """When the oldest open drain was first seen."""
    silent_since: datetime | None = None
    """When the shard last renewed its Lease; null unless it is late."""
    capacity: int | None = None
    """The most objects that the shard can have; null without a ceiling, or if nobody asks."""
    zone: str = ""
    pool: str = ""
    cordoned: bool = False
    evacuating: bool = False


def shards_of(members: Members, phases: Mapping[ShardName, ShardPhase]) -> Iterator[ShardFacts]:
    """Yield the facts that the Leases alone show; `phases` has the shards in their order."""
    leases = leases_of(members)
    for name, phase in phases.items():
        shard, lease = members.shards.get(name) or Shard(name=name), leases.get(name)
        is_late = lease is not None and phase is ShardPhase.LATE
        yield ShardFacts(
            name=name,
            phase=phase,
            namespace=members.namespaces.get(name, ""),
            silent_since=parse_time(lease.spec.renew_time) if lease and is_late else None,
            zone=shard.zone,
            pool=shard.pool,
            cordoned=shard.cordoned,
            evacuating=shard.evacuating,
        )


def by_phase(ring: RingName, shards: Sequence[ShardFacts]) -> Iterator[Finding]:
    """Yield which shards are lost with objects, late, missing, cordoned or evacuated."""
    lost = [shard for shard in shards if shard.phase is ShardPhase.LOST and shard.objects]
    if lost:
        objects = sum(shard.objects or 0 for shard in lost)
        wait = f"{counted(objects, 'object')} wait{'s' if objects == 1 else ''}"
        message = f"{_are(lost)} lost: {wait} for another shard"
        why = "stopped renewing, and the sharder took the Lease"
        yield fail(SHARDS, message, why=why, run=_events(lost))
    late = [shard for shard in shards if shard.phase is ShardPhase.LATE]
    if late:
        since = min(filter(None, (shard.silent_since for shard in late)), default=None)
        last = "in time" if since is None else f"since {since:%H:%M:%S} UTC"
        why = f"has not renewed the Lease {last}; the objects stay for two Lease durations"
        advice = "check that it runs, has CPU, and reaches the API server"
        yield warn(SHARDS, f"{_are(late)} late", advice, why=why, run=_events(late))
    missing = [shard for shard in shards if shard.phase is ShardPhase.MISSING]
    if missing:
        why, run = f"{WHY_MISSING}; might be working, so the objects stay", (leases_command(ring),)
        yield warn(SHARDS, f"{_are(missing)} missing", why=why, run=run)
    for shard in shards:
        if shard.phase.owns and (shard.evacuating or shard.cordoned):
            run = (f"sharder uncordon {quote(ring)} {quote(shard.name)}",)
            yield ok(SHARDS, _steered(shard), run=run)


def by_leases(members: Members, now: datetime) -> Iterator[Finding]:
    """Yield which Leases are invalid or renewed in the future, and which shards cannot work."""
    leases, problems = leases_of(members), members.validity.problems
    if problems:
        ref, why = min(problems.items())
        yield warn(
            SHARDS,
            counted(len(problems), "invalid Lease"),
            "correct the shard that holds it, or delete the Lease",
            why=f"{ref}: {why}",
            run=(f"kubectl get lease -n {quote(ref.namespace)} {quote(ref.name)} -o yaml",),
        )
    for name, lease in sorted(leases.items()):
        if problem := shard_of(lease).problem:
            advice = "remove the cause: the shard then recovers by itself"
            if is_held(lease):  # Nobody works on its objects.
                yield fail(SHARDS, f"{name} keeps its objects but {problem}", advice)
            else:
                yield warn(SHARDS, f"{name} left: {problem}", advice)
    ahead = {name: age for name, lease in leases.items() if (age := _ahead(lease, now)) > MAX_SKEW}
    if ahead:
        seconds = max(ahead.values()).total_seconds()
        message = f"{named(sorted(ahead))} renewed the Lease {seconds:.0f}s in the future"
        yield warn(SHARDS, message, "correct the clock of the node")


def without_ring(
    leases: Iterable[Lease], rings: Mapping[RingName, ControllerRing]
) -> Iterator[Finding]:
    """Yield that held Leases name rings that do not exist."""
    lost = [each for each in leases if ring_of(each) not in rings and is_held(each)]
    if lost:
        first = min(lost, key=lambda lease: lease.metadata.ref)
        name = f"Lease {first.metadata.ref} names the ring {ring_of(first)}, which does not exist"
        more = f", and {counted(len(lost) - 1, 'more Lease')} like it" if len(lost) > 1 else ""
        advice = "create the ring, or correct the name of the ring in the shard's settings"
        yield warn(SHARDS, name + more, advice)


def leases_command(ring: RingName) -> str:
    """Return the command that lists the Leases of a ring."""
    return f"kubectl get leases -A -l {quote(f'{RING_LABEL}={ring}')}"


def _steered(shard: ShardFacts) -> str:
    if not shard.evacuating:
        return f"shard {shard.name} is cordoned and gets no new objects"
    if shard.objects == 0 and not shard.draining:
        return f"shard {shard.name} is empty: safe to stop"
    left = "" if shard.objects is None else f", {counted(shard.objects, 'object')} left"
    return f"shard {shard.name} is being evacuated{left}"


def shards_named(shards: Sequence[ShardFacts]) -> str:
    """Return `shard a`, or `shards a, b, c and 3 more`."""
    names = named([shard.name for shard in shards], MAX_NAMED)
    return f"shard{'' if len(shards) == 1 else 's'} {names}"


def _are(shards: Sequence[ShardFacts]) -> str:
    return f"{shards_named(shards)} {'is' if len(shards) == 1 else 'are'}"


def _events(shards: Sequence[ShardFacts]) -> tuple[str, ...]:
    """Return commands that show the Events of the first shards."""
    return tuple(
        f"kubectl get events -n {quote(shard.namespace)} --field-selector "
        + quote(f"involvedObject.name={shard.name}")
        for shard in shards[:MAX_NAMED]
        if shard.namespace
    )


def _ahead(lease: Lease, now: datetime) -> timedelta:
    """Return how far in the future a held Lease was renewed, zero if it was not."""
    renewed = parse_time(lease.spec.renew_time) if is_held(lease) else None
    return timedelta() if renewed is None else renewed - now

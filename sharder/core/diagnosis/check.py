"""All checks of an installation and its rings, in the order in which they are shown."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from sharder.core.api.cluster import Schema
from sharder.core.api.lease import Lease, parse_time
from sharder.core.api.ring import ControllerRing, UnreadableRing
from sharder.core.diagnosis import installation
from sharder.core.diagnosis.finding import Finding, Level, Unread, fail, ok, unknown, warn
from sharder.core.diagnosis.proxies import Proxied, proxies
from sharder.core.diagnosis.ring import RING, RingFacts, findings_of, unreadable, unseen
from sharder.core.diagnosis.shards import SHARDS, shards_of, without_ring
from sharder.core.leases.membership import Members
from sharder.core.names import ObjectRef, RingName
from sharder.core.preview.observe import states_of
from sharder.core.texts import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class RingReads:
    """What was read about one ring."""

    ring: ControllerRing
    members: Members | Unread
    configuration: installation.Configuration | Unread | None
    """The webhook configuration of the ring; None if there is none."""
    answer: installation.Answer | Unread
    """The answer to a probe of the webhook."""
    proxied: Proxied | Unread = field(default_factory=Proxied)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts about a cluster."""

    now: datetime
    """The time on the clock of the API server; aware."""
    schema: Schema | Unread | None
    """The schema of the CRD; None if ControllerRings are not served."""
    leader_ref: ObjectRef
    leader: Lease | Unread | None
    certificates: installation.Certificates | Unread
    rings: tuple[RingReads, ...] | Unread
    known: Mapping[RingName, ControllerRing]
    """All rings, including those that are not checked."""
    leases: tuple[Lease, ...]
    """All Leases with the label of a ring."""


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of all checks; its JSON is a stable interface (docs/commands.md)."""

    failed: int
    warned: int
    findings: tuple[Finding, ...]


def report(facts: Facts) -> CheckReport:
    """Return the result of all checks."""
    findings = tuple(diagnose(facts))
    return CheckReport(
        failed=sum(each.level is Level.FAIL for each in findings),
        warned=sum(each.level is Level.WARN for each in findings),
        findings=findings,
    )


def diagnose(facts: Facts) -> Iterator[Finding]:
    """Yield the findings, those of the installation first."""
    yield installation.crd(facts.schema)
    yield installation.leader(facts.leader, facts.leader_ref, facts.now)
    yield from installation.certificates(facts.certificates, facts.now)
    if isinstance(facts.rings, Unread):
        yield fail(RING, f"not checked: {facts.rings.why}", facts.rings.advice)
        return
    if not facts.known:
        yield warn(RING, "there is no ControllerRing", "create one: docs/install.md")
    for each in facts.rings:
        yield from _of_ring(each, facts.now)
    yield from without_ring(facts.leases, facts.known)


def _of_ring(reads: RingReads, now: datetime) -> Iterator[Finding]:
    ring, members = reads.ring, reads.members
    if isinstance(ring, UnreadableRing):
        yield unreadable(ring.name, ring.problem)
        return
    found = [*unseen(ring), *findings_of(_facts_of(reads, now), now)]
    yield from found
    bad = {each.check for each in found if each.level is not Level.OK}
    if RING not in bad:
        shards = f"{ring.status.available_shards} of {ring.status.shards} shards"
        yield ok(RING, f"ready, {shards} available", ring=ring.name)
    if isinstance(members, Unread):
        yield unknown(SHARDS, members, ring=ring.name)
    elif SHARDS not in bad:
        many = counted(len(members.available), "shard")
        yield ok(SHARDS, f"{many} available, all Leases valid and renewed", ring=ring.name)
    yield installation.configuration(ring, reads.configuration)
    available = 0 if isinstance(members, Unread) else len(members.available)
    yield installation.webhook(ring, reads.answer, available=available)
    yield from proxies(ring.name, reads.proxied)


def _facts_of(reads: RingReads, now: datetime) -> RingFacts:
    """Return what the Leases and the status of a ring show.

    The status counts the objects of each shard too rarely to say what a lost shard still has.
    """
    status, members = reads.ring.status, reads.members
    known = None if isinstance(members, Unread) else members
    phases = {} if known is None else states_of(known, known.validity.valid, now)
    return RingFacts(
        ring=reads.ring,
        members=known,
        shards=() if known is None else tuple(shards_of(known, phases)),
        objects=status.objects,
        draining=status.draining,
        draining_since=parse_time(status.oldest_drain_since) if status.draining else None,
    )

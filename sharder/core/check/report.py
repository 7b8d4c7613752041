"""All checks of an installation and its rings, in the order in which they are shown."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from sharder.core.api.cluster import Deployment, Schema
from sharder.core.api.lease import Lease
from sharder.core.api.ring import ControllerRing, UnreadableRing
from sharder.core.check import crd, fence, installation, rights, ring, webhook
from sharder.core.check.fence import FenceFacts
from sharder.core.check.finding import Finding, Level, Unread, fail, unknown, warn
from sharder.core.leases.membership import Members
from sharder.core.names import ObjectRef, RingName


@dataclass(frozen=True, slots=True, kw_only=True)
class RingFacts:
    """The facts about one ring."""

    ring: ControllerRing
    members: Members | Unread
    configuration: webhook.Configuration | Unread | None
    """The webhook configuration of the ring; None if there is none."""
    answer: webhook.Answer | Unread
    """The answer to a probe of the webhook."""
    fence: FenceFacts | None = None
    """The facts about its fence; None if the ring never had one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts about a cluster."""

    now: datetime
    """The time on the clock of the API server; aware."""
    skew: timedelta
    """How far the API server's clock is ahead of ours."""
    schema: Schema | Unread | None
    """The schema of the CRD; None if ControllerRings are not served."""
    user: str
    """The sharder's user name."""
    asked: int
    """The number of rights that were checked."""
    denied: Mapping[rights.Rule, Collection[str]] | Unread
    """The verbs that the user lacks."""
    deployments: tuple[Deployment, ...] | Unread
    leader_ref: ObjectRef
    leader: Lease | Unread | None
    certificates: installation.Certificates | Unread
    rings: tuple[RingFacts, ...] | Unread
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
    yield crd.crd(facts.schema)
    yield from rights.rights(facts.denied, facts.user, asked=facts.asked)
    yield from installation.replicas(facts.deployments, facts.leader_ref.namespace)
    yield installation.leader(facts.leader, facts.leader_ref, facts.now)
    yield from installation.certificates(facts.certificates, facts.now)
    yield installation.clock(facts.skew)
    if isinstance(facts.rings, Unread):
        yield fail(ring.RING, f"not checked: {facts.rings.why}", facts.rings.advice)
        return
    if not facts.known:
        yield warn(ring.RING, "there is no ControllerRing", "create one: docs/install.md")
    for each in facts.rings:
        yield from _of_ring(each, facts.now)
    yield from ring.strangers(facts.leases, facts.known)


def _of_ring(facts: RingFacts, now: datetime) -> Iterator[Finding]:
    yield from ring.ring(facts.ring, now)
    if isinstance(facts.ring, UnreadableRing):
        return
    yield webhook.configuration(facts.ring, facts.configuration)
    members = facts.members
    available = 0 if isinstance(members, Unread) else len(members.available)
    yield webhook.webhook(facts.ring, facts.answer, available=available)
    if isinstance(members, Unread):
        yield unknown(ring.SHARDS, members, ring=facts.ring.name)
    else:
        yield from ring.shards(facts.ring, members, now)
    if facts.fence is not None:
        yield from fence.fence(facts.ring, facts.fence)

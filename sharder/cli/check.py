"""`sharder check`: read what `sharder.core.diagnosis` judges, and print the findings.

Everything is read once, and nothing is changed: all writes are dry runs of the API server.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sharder.cli import check_reads as reads
from sharder.cli.check_reads import fence_facts
from sharder.cli.check_webhook import answer, configuration_of
from sharder.cli.cluster import run
from sharder.cli.output import table, write
from sharder.config import Settings
from sharder.core.api.cluster import WebhookConfiguration
from sharder.core.api.lease import Lease
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import ControllerRing
from sharder.core.api.selector import DEFAULT_NAMESPACES
from sharder.core.diagnosis.check import CheckReport, Facts, RingReads, report
from sharder.core.diagnosis.finding import Finding, Unread
from sharder.core.diagnosis.rights import service_account
from sharder.core.diagnosis.webhook import Configuration
from sharder.core.errors import ConfigError, SharderError, Unavailable
from sharder.core.leases.membership import ring_of
from sharder.core.names import RING_LABEL, ObjectRef, RingName, webhook_configuration
from sharder.core.preview.observe import members_of, selected_namespaces
from sharder.kube import check_requests
from sharder.kube.client import Client
from sharder.kube.typed_stores import all_rings, leases, namespaces, webhook_configurations
from sharder.runtime.clock import SystemClock
from sharder.tls.bundle import CertificateBundle


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Where the sharder is installed."""

    namespace: str
    secret: str
    """Name of the Secret with its certificates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """The input that the checks of all rings share."""

    namespaces: Sequence[PartialObject] | Unread
    leases: Sequence[Lease] | Unread
    configurations: Mapping[str, WebhookConfiguration] | Unread
    bundle: CertificateBundle | Unread


def check(
    kubeconfig: str | None, context: str | None, where: Installation, names: Collection[str]
) -> CheckReport:
    """Check an installation and the named rings, or all rings if `names` is empty.

    Raises:
        ApiError: the API server does not answer.
        ConfigError: a named ring does not exist.
    """
    facts = partial(_facts, where=where, names=names)
    return report(run(kubeconfig, context, facts))


def require_health(found: CheckReport) -> None:
    """Raise if a check failed.

    Raises:
        SharderError: the message says how many checks failed.
    """
    if found.failed:
        raise SharderError(f"{found.failed} of {len(found.findings)} checks failed")


def draw(found: CheckReport) -> None:
    """Print the findings, and their number."""
    write(table((), map(_row, found.findings)))
    total = len(found.findings)
    write(f"{total} checks: {found.failed} failed, {found.warned} with a warning")


def _row(finding: Finding) -> tuple[str, str, str]:
    about = f"{finding.ring}: " if finding.ring else ""
    return finding.level, finding.check, f"{about}{finding.said}"


async def _facts(client: Client, where: Installation, names: Collection[str]) -> Facts:
    asked_at = SystemClock().now()
    await client.request("GET", "/version")
    now = client.server_time()
    if now is None:
        raise Unavailable("GET /version: not an answer of an API server: no date")
    rings = await reads.all_of(all_rings(client).stream())
    known = {} if isinstance(rings, Unread) else {ring.name: ring for ring in rings}
    wanted = [] if isinstance(rings, Unread) else _wanted(known, names)
    secret = await reads.secret(client, ObjectRef(where.namespace, where.secret))
    certificates = secret if isinstance(secret, Unread) else reads.certificates(secret, now)
    shared = await _shared(client, secret)
    selected = [(ring, _selected(ring, shared.namespaces)) for ring in wanted]
    deployments = await reads.guarded(check_requests.deployments(client, where.namespace))
    account = ObjectRef(where.namespace, reads.account(deployments))
    rules = reads.rules(where.namespace, where.secret, certificates, selected)
    lease_ref = ObjectRef(where.namespace, Settings().leader_election.resource_name)
    return Facts(
        now=now,
        skew=now - asked_at,
        schema=await reads.guarded(check_requests.ring_schema(client)),
        user=service_account(account)[0],
        asked=sum(len(rule.verbs) for rule in rules),
        denied=await reads.guarded(reads.denied(client, account, rules)),
        deployments=deployments,
        leader_ref=lease_ref,
        leader=await reads.guarded(reads.leader(client, lease_ref)),
        certificates=certificates,
        rings=rings
        if isinstance(rings, Unread)
        else tuple([await _ring(client, ring, spaces, shared) for ring, spaces in selected]),
        known=known,
        leases=() if isinstance(shared.leases, Unread) else tuple(shared.leases),
    )


def _wanted(
    known: Mapping[RingName, ControllerRing], names: Collection[str]
) -> list[ControllerRing]:
    missing = [name for name in names if name not in known]
    if missing:
        existing = ", ".join(sorted(known)) or "none"
        raise ConfigError(f"ControllerRing {missing[0]} not found; existing rings: {existing}")
    return [known[name] for name in sorted(known) if not names or name in names]


async def _shared(client: Client, secret: reads.SecretRead) -> _Shared:
    configurations = await reads.all_of(webhook_configurations(client).stream(RING_LABEL))
    return _Shared(
        namespaces=await reads.all_of(namespaces(client).stream()),
        leases=await reads.all_of(leases(client, labels=RING_LABEL).stream()),
        configurations=configurations
        if isinstance(configurations, Unread)
        else {each.metadata.name: each for each in configurations},
        bundle=secret
        if isinstance(secret, Unread)
        else CertificateBundle.from_secret_data(secret.data or {}),
    )


def _selected(
    ring: ControllerRing, spaces: Sequence[PartialObject] | Unread
) -> frozenset[str] | Unread:
    if isinstance(spaces, Unread):
        return spaces
    live = [space for space in spaces if space.metadata.deletion_timestamp is None]
    return selected_namespaces(ring, live, DEFAULT_NAMESPACES)


async def _ring(
    client: Client, ring: ControllerRing, spaces: frozenset[str] | Unread, shared: _Shared
) -> RingReads:
    members = (
        shared.leases
        if isinstance(shared.leases, Unread)
        else members_of(ring, [each for each in shared.leases if ring_of(each) == ring.name])
    )
    return RingReads(
        ring=ring,
        members=members,
        configuration=_configuration(ring, shared),
        answer=spaces if isinstance(spaces, Unread) else await answer(client, ring, spaces),
        fence=await fence_facts(client, ring, members),
    )


def _configuration(ring: ControllerRing, shared: _Shared) -> Configuration | Unread | None:
    configurations = shared.configurations
    if isinstance(configurations, Unread):
        return configurations
    stored = configurations.get(webhook_configuration(ring.name))
    return None if stored is None else configuration_of(stored, shared.bundle)

"""`sharder check`: read what `sharder.core.diagnosis` judges, and print the findings.

Everything is read once, and nothing is changed: all writes are dry runs of the API server.
"""

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from functools import partial
from typing import Final, TypeVar

from sharder.cli import certs
from sharder.cli.check_webhook import answer, configuration_of
from sharder.cli.output import aligned, write
from sharder.config import Settings
from sharder.controllers.scope import MAX_NAMESPACES
from sharder.core.api.cluster import Deployment, Secret, User, WebhookConfiguration
from sharder.core.api.lease import Lease
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import ControllerRing
from sharder.core.api.selector import DEFAULT_NAMESPACES
from sharder.core.diagnosis.check import CheckReport, Facts, RingReads, report
from sharder.core.diagnosis.finding import Finding, Unread
from sharder.core.diagnosis.installation import Certificates, is_sharder
from sharder.core.diagnosis.rights import FOR_ALL, Rule, own_rules, ring_rules, service_account
from sharder.core.errors import ApiError, ConfigError, NotFound, SharderError, Unavailable
from sharder.core.leases.membership import Members, ring_of
from sharder.core.names import RING_LABEL, ObjectRef, RingName, webhook_configuration
from sharder.core.preview.observe import members_of, selected_namespaces
from sharder.kube import check_requests
from sharder.kube.client import Client
from sharder.kube.reviews import is_allowed
from sharder.kube.typed_stores import (
    all_rings,
    leases,
    namespaces,
    secrets,
    webhook_configurations,
)
from sharder.runtime.clock import SystemClock
from sharder.runtime.task_pool import batch
from sharder.tls.bundle import CertificateBundle

T = TypeVar("T")
U = TypeVar("U")

_AT_ONCE: Final = 8
"""Limit on concurrent access reviews, each with a connection: a handshake costs 4 ms of CPU."""

_ACCOUNT: Final = "sharder"
"""The chart's ServiceAccount, unless a Deployment names another."""

_NOT_FOUND: Final = (
    "set --secret to the Secret of the certificates (sharder-cert-manager if the chart uses "
    "cert-manager); a running sharder restores its own Secret"
)


async def check(client: Client, *, secret: ObjectRef, names: Collection[str]) -> CheckReport:
    """Check an installation and the named rings, or all rings if `names` is empty.

    `secret` is the Secret of the certificates, in the namespace of the sharder.

    Raises:
        ApiError: the API server does not answer.
        ConfigError: a named ring does not exist.
    """
    return report(await _facts(client, secret, names))


def require_health(found: CheckReport) -> None:
    """Raise if a check failed.

    Raises:
        SharderError: the message says how many checks failed.
    """
    if found.failed:
        raise SharderError(f"{found.failed} of {len(found.findings)} checks failed")


def draw(found: CheckReport) -> None:
    """Print the findings, and their number."""
    write(aligned(map(_row, found.findings)))
    total = len(found.findings)
    write(f"{total} checks: {found.failed} failed, {found.warned} with a warning")


def _row(finding: Finding) -> tuple[str, str, str]:
    about = f"{finding.ring}: " if finding.ring else ""
    return finding.level, finding.check, f"{about}{finding.said}"


async def _facts(client: Client, secret_ref: ObjectRef, names: Collection[str]) -> Facts:
    asked_at = SystemClock().now()
    await client.request("GET", "/version")
    now = client.server_time()
    if now is None:
        raise Unavailable("GET /version: not an answer of an API server: no date")
    rings = await _all_of(all_rings(client).stream())
    every = {ring.name: ring for ring in _known(rings, [])}
    chosen = [] if isinstance(rings, Unread) else _chosen(every, names)
    secret, namespace = await _secret(client, secret_ref), secret_ref.namespace
    certificates = _applied(partial(certs.certificates_of, now=now), secret)
    spaces = await _all_of(namespaces(client).stream())
    selected = [(ring, _applied(partial(_selected, ring), spaces)) for ring in chosen]
    deployments = await _guarded(check_requests.deployments(client, namespace))
    account = ObjectRef(namespace, _account(deployments))
    rules = _rules(secret_ref, certificates, selected)
    lease_ref = ObjectRef(namespace, Settings().leader_election.resource_name)
    stored = await _all_of(leases(client, labels=RING_LABEL).stream())
    configured = await _all_of(webhook_configurations(client).stream(RING_LABEL))
    bundle = _applied(certs.bundle_of, secret)
    about = partial(_ring, client, stored=stored, configured=configured, bundle=bundle)
    return Facts(
        now=now,
        skew=now - asked_at,
        schema=await _guarded(check_requests.ring_schema(client)),
        user=service_account(account)[0],
        asked=sum(len(rule.verbs) for rule in rules),
        denied=await _guarded(_denied(client, account, rules)),
        deployments=deployments,
        leader_ref=lease_ref,
        leader=await _guarded(_leader(client, lease_ref)),
        certificates=certificates,
        rings=rings
        if isinstance(rings, Unread)
        else tuple([await about(ring, spaces) for ring, spaces in selected]),
        known=every,
        leases=tuple(_known(stored, [])),
    )


def _chosen(
    every: Mapping[RingName, ControllerRing], names: Collection[str]
) -> list[ControllerRing]:
    if missing := [name for name in names if name not in every]:
        existing = ", ".join(sorted(every)) or "none"
        raise ConfigError(f"ControllerRing {missing[0]} not found; existing rings: {existing}")
    return [every[name] for name in sorted(every) if not names or name in names]


async def _ring(
    client: Client,
    ring: ControllerRing,
    spaces: frozenset[str] | Unread,
    *,
    stored: Sequence[Lease] | Unread,
    configured: Sequence[WebhookConfiguration] | Unread,
    bundle: CertificateBundle | Unread,
) -> RingReads:
    members = _applied(partial(_members, ring), stored)
    configuration = partial(configuration_of, webhook_configuration(ring.name), bundle=bundle)
    return RingReads(
        ring=ring,
        members=members,
        configuration=_applied(configuration, configured),
        answer=spaces if isinstance(spaces, Unread) else await answer(client, ring, spaces),
    )


def _selected(ring: ControllerRing, spaces: Sequence[PartialObject]) -> frozenset[str]:
    live = [space for space in spaces if space.metadata.deletion_timestamp is None]
    return selected_namespaces(ring, live, DEFAULT_NAMESPACES)


def _members(ring: ControllerRing, stored: Sequence[Lease]) -> Members:
    return members_of(ring, [each for each in stored if ring_of(each) == ring.name])


def _applied(change: Callable[[T], U], read: T | Unread) -> U | Unread:
    """Return the change of what was read, or why it was not read."""
    return read if isinstance(read, Unread) else change(read)


def _known(read: T | Unread, otherwise: T) -> T:
    """Return what was read, or something else if it was not read."""
    return otherwise if isinstance(read, Unread) else read


async def _guarded(ask: Awaitable[T]) -> T | Unread:
    """Return the result of `ask`, or the error as `Unread`."""
    try:
        return await ask
    except ApiError as error:
        return Unread(str(error))


async def _all_of(stream: AsyncIterator[T]) -> list[T] | Unread:
    """Return all objects of a collection, or `Unread`; no objects if it is not served."""
    try:
        return [each async for each in stream]
    except NotFound:
        return []
    except ApiError as error:
        return Unread(str(error))


async def _secret(client: Client, ref: ObjectRef) -> Secret | Unread:
    """Return the Secret of the certificates, or the error as `Unread`."""
    try:
        return await secrets(client, namespace=ref.namespace).get(ref)
    except NotFound:
        return Unread(f"Secret {ref} not found", _NOT_FOUND)
    except ApiError as error:
        return Unread(str(error))


def _account(deployments: Iterable[Deployment] | Unread) -> str:
    """Return the name of the sharder's ServiceAccount."""
    ours = (each.spec.template.spec for each in _known(deployments, ()) if is_sharder(each))
    return next((each.service_account_name for each in ours), _ACCOUNT)


def _rules(
    secret: ObjectRef,
    held: Certificates | Unread,
    rings: Sequence[tuple[ControllerRing, frozenset[str] | Unread]],
) -> tuple[Rule, ...]:
    """Return the rules that the sharder needs; `rings` has each ring with its namespaces."""
    is_foreign = not isinstance(held, Unread) and held.foreign
    selected = [(ring, _known(spaces, frozenset())) for ring, spaces in rings]
    return (
        *FOR_ALL,
        *own_rules(secret.namespace, None if is_foreign else secret.name),
        *ring_rules(selected, most_namespaces=MAX_NAMESPACES),
    )


async def _denied(
    client: Client, ref: ObjectRef, wanted: Iterable[Rule]
) -> Mapping[Rule, Collection[str]]:
    """Return the missing verbs of each rule that the ServiceAccount does not have completely.

    Raises:
        ApiError: the user of the command is not allowed to create access reviews.
    """
    name, groups = service_account(ref)
    user = User(username=name, groups=groups)
    lacking: dict[Rule, list[str]] = {}

    async def ask(rule: Rule, verb: str) -> None:
        if not await _is_allowed(client, user, rule, verb):
            lacking.setdefault(rule, []).append(verb)

    async with batch(_AT_ONCE) as reviews:
        for rule in wanted:
            for verb in rule.verbs:
                await reviews.add(ask(rule, verb))
    return lacking


async def _leader(client: Client, ref: ObjectRef) -> Lease | None:
    """Return the leader's Lease, None if there is none; needs only the right to list Leases."""
    store = leases(client, namespace=ref.namespace, fields=f"metadata.name={ref.name}")
    return next(iter((await store.list()).items), None)


async def _is_allowed(client: Client, user: User, rule: Rule, verb: str) -> bool:
    ask = partial(is_allowed, client, verb, rule.resource, name=rule.name, user=user)
    for spaces in filter(None, ([rule.namespace], rule.instead)):
        if all([await ask(namespace=namespace) for namespace in spaces]):
            return True
    return False

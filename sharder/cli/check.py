"""`sharder check`: read what `sharder.core.diagnosis` judges, and print the findings.

Everything is read once, and nothing is changed: all writes are dry runs of the API server.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from sharder.cli.check_certificates import bundle_of, certificates_of
from sharder.cli.check_proxies import proxied
from sharder.cli.check_webhook import answer, configuration_of
from sharder.cli.output import aligned, write
from sharder.config.settings import Settings
from sharder.core.api.cluster import Secret, WebhookConfiguration
from sharder.core.api.lease import Lease
from sharder.core.api.meta import DEFAULT_NAMESPACES, PartialObject
from sharder.core.api.ring import ControllerRing
from sharder.core.diagnosis.check import CheckReport, Facts, RingReads, report
from sharder.core.diagnosis.finding import Finding, Unread
from sharder.core.errors import ApiError, ConfigError, NotFound, Unavailable
from sharder.core.leases.membership import ring_of
from sharder.core.names import RING_LABEL, ObjectRef, RingName, webhook_configuration
from sharder.core.preview.observe import members_of, selected_namespaces
from sharder.kube.client import Client
from sharder.kube.objects import ring_schema
from sharder.kube.typed_stores import (
    all_rings,
    leases,
    namespaces,
    secrets,
    webhook_configurations,
)
from sharder.tls.bundle import CertificateBundle

T = TypeVar("T")
U = TypeVar("U")

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


def draw(found: CheckReport) -> None:
    """Print the findings, and their number."""
    write(aligned(map(_row, found.findings)))
    total = len(found.findings)
    write(f"{total} checks: {found.failed} failed, {found.warned} with a warning")


def _row(finding: Finding) -> tuple[str, str, str]:
    about = f"{finding.ring}: " if finding.ring else ""
    return finding.level, finding.check, f"{about}{finding.said}"


async def _facts(client: Client, secret_ref: ObjectRef, names: Collection[str]) -> Facts:
    await client.request("GET", "/version")
    now = client.server_time()
    if now is None:
        raise Unavailable("GET /version: not an answer of an API server: no date")
    rings = await _all_of(all_rings(client).stream())
    every = {ring.name: ring for ring in _known(rings, [])}
    chosen = [] if isinstance(rings, Unread) else _chosen(every, names)
    secret, namespace = await _guarded(_secret(client, secret_ref)), secret_ref.namespace
    certificates = _applied(partial(certificates_of, now=now), secret)
    spaces = await _all_of(namespaces(client).stream())
    selected = [(ring, _applied(partial(_selected, ring), spaces)) for ring in chosen]
    lease_ref = ObjectRef(namespace, Settings().leader_election.resource_name)
    stored = await _all_of(leases(client, labels=RING_LABEL).stream())
    configured = await _all_of(webhook_configurations(client).stream(RING_LABEL))
    bundle = _applied(bundle_of, secret)
    about = partial(_ring, client, stored=stored, configured=configured, bundle=bundle)
    return Facts(
        now=now,
        schema=await _guarded(ring_schema(client)),
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
    own = _applied(partial(_own, ring), stored)
    configuration = partial(configuration_of, webhook_configuration(ring.name), bundle=bundle)
    return RingReads(
        ring=ring,
        members=_applied(partial(members_of, ring), own),
        configuration=_applied(configuration, configured),
        answer=spaces if isinstance(spaces, Unread) else await answer(client, ring, spaces),
        proxied=await _guarded(proxied(client, ring, _known(own, []))),
    )


def _selected(ring: ControllerRing, spaces: Sequence[PartialObject]) -> frozenset[str]:
    live = [space for space in spaces if space.metadata.deletion_timestamp is None]
    return selected_namespaces(ring, live, DEFAULT_NAMESPACES)


def _own(ring: ControllerRing, stored: Sequence[Lease]) -> list[Lease]:
    return [each for each in stored if ring_of(each) == ring.name]


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
    """Return the Secret of the certificates, `Unread` if there is none."""
    try:
        return await secrets(client, namespace=ref.namespace).get(ref)
    except NotFound:
        return Unread(f"Secret {ref} not found", _NOT_FOUND)


async def _leader(client: Client, ref: ObjectRef) -> Lease | None:
    """Return the leader's Lease, None if there is none; needs only the right to list Leases."""
    store = leases(client, namespace=ref.namespace, fields=f"metadata.name={ref.name}")
    return next(iter((await store.list()).items), None)

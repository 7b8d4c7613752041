"""`sharder check`: read what `sharder.core.diagnosis` judges, and print the findings.

Everything is read once, and nothing is changed: all writes are dry runs of the API server.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias, TypeVar

from msgspec.structs import replace

from sharder.cli.certs import bundle_of, report_of
from sharder.cli.check_proxies import proxied
from sharder.cli.check_webhook import answer, trusts
from sharder.cli.cluster import Cluster
from sharder.cli.cluster_view import named
from sharder.cli.output import aligned, write
from sharder.config.settings import Settings
from sharder.core.api.cluster import Secret, WebhookConfiguration
from sharder.core.api.lease import Lease
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import ControllerRing, UnreadableRing
from sharder.core.diagnosis.finding import (
    CheckReport,
    Finding,
    Level,
    Unread,
    judged,
    report,
    unknown,
    warn,
)
from sharder.core.diagnosis.installation import (
    CERTIFICATES,
    CONFIGURATION,
    CRD,
    LEADER,
    WEBHOOK,
    certificates,
    configuration,
    crd,
    leader,
    webhook,
)
from sharder.core.diagnosis.proxies import PROXIES, proxies
from sharder.core.diagnosis.ring import RING, about_ring, unreadable
from sharder.core.diagnosis.shards import SHARDS, without_ring
from sharder.core.errors import ApiError, NotFound, Unavailable
from sharder.core.leases.membership import ring_of
from sharder.core.names import RING_LABEL, ObjectRef, webhook_configuration
from sharder.core.plan.observe import members_of, selected_namespaces
from sharder.kube.client import Client
from sharder.kube.objects import ring_schema
from sharder.kube.store import KubeStore
from sharder.kube.typed_stores import MUTATING, leases, secrets

T = TypeVar("T")
Read: TypeAlias = Callable[[], T]
"""Returns what was read, or raises the `ApiError` or `Unread` that says why it was not."""

_NOT_FOUND: Final = (
    "set --secret to the Secret of the certificates (sharder-cert-manager if the chart uses "
    "cert-manager); a running sharder restores its own Secret"
)


async def check(cluster: Cluster, *, secret: ObjectRef, names: Collection[str]) -> CheckReport:
    """Check an installation and the named rings, or all rings if `names` is empty.

    `secret` is the Secret of the certificates, in the namespace of the sharder.

    Raises:
        ApiError: the API server does not answer.
        ConfigError: a named ring does not exist.
    """
    client, now = cluster.client, await _time(cluster.client)
    ref = ObjectRef(secret.namespace, Settings().leader_election.resource_name)
    leads, schema = await _read(_leader(client, ref)), await _read(ring_schema(client))
    own, found = await _read(_secret(client, secret)), await _read(_all(cluster.rings))
    findings = [
        *judged(CRD, lambda: crd(schema())),
        *judged(LEADER, lambda: leader(leads(), ref, now)),
        *judged(CERTIFICATES, lambda: certificates(report_of(own(), now), now)),
    ]
    try:
        every = {ring.name: ring for ring in found()}
    except ApiError as error:
        return report([*findings, replace(unknown(RING, error), level=Level.FAIL)])
    if not every:
        findings.append(warn(RING, "there is no ControllerRing", "create one: docs/install.md"))
    mutating = KubeStore(client, WebhookConfiguration, MUTATING)
    checks = _RingChecks(
        cluster=cluster,
        now=now,
        secret=own,
        spaces=await _read(_all(cluster.namespaces)),
        leases=await _read(_all(cluster.leases)),
        configurations=await _read(_all(mutating, RING_LABEL)),
    )
    chosen = [named(every, name) for name in sorted({*names} or every)]
    for ring in chosen:
        findings += [replace(each, ring=ring.name) for each in await checks.about(ring)]
    with suppress(ApiError):  # each ring has said so
        findings += without_ring(checks.leases(), every)
    return report(findings)


def draw(found: CheckReport) -> None:
    """Print the findings, and their number."""
    write(aligned(map(_row, found.findings)))
    total = len(found.findings)
    write(f"{total} checks: {found.failed} failed, {found.warned} with a warning")


def _row(finding: Finding) -> tuple[str, str, str]:
    about = f"{finding.ring}: " if finding.ring else ""
    return finding.level, finding.check, f"{about}{finding.said}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _RingChecks:
    """The checks of one ring after the other, with what was read for all."""

    cluster: Cluster
    now: datetime
    secret: Read[Secret]
    spaces: Read[list[PartialObject]]
    leases: Read[list[Lease]]
    configurations: Read[list[WebhookConfiguration]]

    async def about(self, ring: ControllerRing) -> list[Finding]:
        """Return what is found about a ring."""
        if isinstance(ring, UnreadableRing):
            return [unreadable(ring.name, ring.problem)]
        own, members, unread = list[Lease](), None, list[Finding]()
        try:
            own = [each for each in self.leases() if ring_of(each) == ring.name]
            members = members_of(ring, own)
        except ApiError as error:
            unread.append(unknown(SHARDS, error))
        available = 0 if members is None else len(members.available)
        probed = await _read(self._answer(ring))
        behind = await _read(proxied(self.cluster, ring, own))
        return [
            *about_ring(ring, members, self.now),
            *unread,
            *judged(CONFIGURATION, lambda: self._configuration(ring)),
            *judged(WEBHOOK, lambda: webhook(ring, *probed(), available=available)),
            *judged(PROXIES, lambda: proxies(behind())),
        ]

    def _configuration(self, ring: ControllerRing) -> Finding:
        found = {each.metadata.name: each for each in self.configurations()}
        return configuration(ring, found.get(webhook_configuration(ring.name)), self._trusts)

    def _trusts(self, ca_bundle: str) -> bool:
        return trusts(ca_bundle, bundle_of(self.secret()).serving.certificate)

    async def _answer(self, ring: ControllerRing) -> tuple[str, PartialObject]:
        live = [each for each in self.spaces() if each.metadata.deletion_timestamp is None]
        spaces = selected_namespaces(ring, live)
        return await answer(self.cluster.objects, ring, spaces)


async def _read(ask: Coroutine[None, None, T]) -> Read[T]:
    """Make a read, for checks that use it or say why it failed."""
    task = asyncio.ensure_future(ask)
    await asyncio.wait([task])
    task.exception()  # otherwise Python warns of an error that no check asks for
    return task.result


async def _time(client: Client) -> datetime:
    """Return the time on the clock of the API server."""
    await client.request("GET", "/version")
    now = client.server_time()
    if now is None:
        raise Unavailable("GET /version: not an answer of an API server: no date")
    return now


async def _all(store: KubeStore[T], labels: str = "") -> list[T]:
    """Return all objects of a collection; no objects if it is not served."""
    try:
        return [each async for each in store.stream(labels)]
    except NotFound:
        return []


async def _secret(client: Client, ref: ObjectRef) -> Secret:
    try:
        return await secrets(client, namespace=ref.namespace).get(ref)
    except NotFound as error:
        raise Unread(f"Secret {ref} not found", _NOT_FOUND) from error


async def _leader(client: Client, ref: ObjectRef) -> Lease | None:
    """Return the leader's Lease, None if there is none; needs only the right to list Leases."""
    store = leases(client, namespace=ref.namespace, fields=f"metadata.name={ref.name}")
    return next(iter((await store.list()).items), None)

"""The reads of `sharder check`: certificates, rights, the leader's Lease, and fences."""

from collections.abc import AsyncIterator, Awaitable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeAlias, TypeVar

from sharder.cli import certs
from sharder.controllers.scope import MAX_NAMESPACES
from sharder.core.api.cluster import Deployment, Secret, User
from sharder.core.api.lease import Lease, parse_time, read_lease
from sharder.core.api.ring import ControllerRing
from sharder.core.diagnosis.fence import FenceFacts
from sharder.core.diagnosis.finding import Unread
from sharder.core.diagnosis.installation import Certificate, Certificates, is_sharder
from sharder.core.diagnosis.rights import FOR_ALL, Rule, own_rules, ring_rules, service_account
from sharder.core.errors import ApiError, NotFound
from sharder.core.leases.membership import Members
from sharder.core.names import ObjectRef
from sharder.core.status.conditions import condition_of
from sharder.core.status.fence_condition import FENCED
from sharder.kube.check_requests import pod as pod_of
from sharder.kube.client import Client
from sharder.kube.reviews import KubeFences, is_allowed
from sharder.kube.store import KubeStore
from sharder.kube.typed_stores import LEASES, secrets
from sharder.runtime.task_pool import batch
from sharder.tls.expiry_warning import ends_soon

T = TypeVar("T")

SecretRead: TypeAlias = Secret | Unread

_AT_ONCE: Final = 8
"""Limit on concurrent access reviews, each with a connection: a handshake costs 4 ms of CPU."""

_ACCOUNT: Final = "sharder"
"""The chart's ServiceAccount, unless a Deployment names another."""

_NOT_FOUND: Final = (
    "set --secret to the Secret of the certificates (sharder-cert-manager if the chart uses "
    "cert-manager); a running sharder restores its own Secret"
)


async def guarded(ask: Awaitable[T]) -> T | Unread:
    """Return the result of `ask`, or the error as `Unread`."""
    try:
        return await ask
    except ApiError as error:
        return Unread(str(error))


async def all_of(stream: AsyncIterator[T]) -> list[T] | Unread:
    """Return all objects of a collection, or `Unread`; no objects if it is not served."""
    try:
        return [each async for each in stream]
    except NotFound:
        return []
    except ApiError as error:
        return Unread(str(error))


async def secret(client: Client, ref: ObjectRef) -> SecretRead:
    """Return the Secret of the certificates, or the error as `Unread`."""
    try:
        return await secrets(client, namespace=ref.namespace).get(ref)
    except NotFound:
        return Unread(f"Secret {ref} not found", _NOT_FOUND)
    except ApiError as error:
        return Unread(str(error))


def certificates(found: Secret, now: datetime) -> Certificates:
    """Return the certificates in the Secret, without keys."""
    shown = certs.report_of(found, now, ref=found.metadata.ref)
    ends = [
        (row, parse_time(row.not_before), parse_time(row.not_after)) for row in shown.certificates
    ]
    return Certificates(
        secret=found.metadata.ref,
        foreign=shown.foreign,
        problem=shown.problem,
        certificates=tuple(
            Certificate(
                role=row.role,
                not_before=begin,
                not_after=end,
                ends_soon=ends_soon(begin, end, now),
            )
            for row, begin, end in ends
            if begin is not None and end is not None
        ),
    )


def account(deployments: Iterable[Deployment] | Unread) -> str:
    """Return the name of the sharder's ServiceAccount."""
    ours = () if isinstance(deployments, Unread) else deployments
    names = (each.spec.template.spec.service_account_name for each in ours if is_sharder(each))
    return next(names, _ACCOUNT)


def rules(
    namespace: str,
    secret_name: str,
    held: Certificates | Unread,
    rings: Sequence[tuple[ControllerRing, frozenset[str] | Unread]],
) -> tuple[Rule, ...]:
    """Return the rules that the sharder needs; `rings` has each ring with its namespaces."""
    is_foreign = not isinstance(held, Unread) and held.foreign
    known = [(r, frozenset[str]() if isinstance(s, Unread) else s) for r, s in rings]
    return (
        *FOR_ALL,
        *own_rules(namespace, None if is_foreign else secret_name),
        *ring_rules(known, most_namespaces=MAX_NAMESPACES),
    )


async def denied(
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


async def leader(client: Client, ref: ObjectRef) -> Lease | None:
    """Return the leader's Lease, None if there is none; needs only the right to list Leases.

    Raises:
        ApiError: the Lease cannot be read.
    """
    named = f"metadata.name={ref.name}"
    store = KubeStore(
        client, Lease, LEASES, namespace=ref.namespace, fields=named, decode=read_lease
    )
    return next(iter((await store.list()).items), None)


async def _is_allowed(client: Client, user: User, rule: Rule, verb: str) -> bool:
    places = ([rule.namespace], rule.instead)
    for namespaces in filter(None, places):
        answers = [
            await is_allowed(
                client, verb, rule.resource, namespace=namespace, name=rule.name, user=user
            )
            for namespace in namespaces
        ]
        if all(answers):
            return True
    return False


async def fence_facts(
    client: Client, ring: ControllerRing, members: Members | Unread
) -> FenceFacts | None:
    """Return the input for the check of a ring's fence, None if the ring never had a fence."""
    if condition_of(ring.status, FENCED) is None:
        return None
    return FenceFacts(
        proof=await guarded(KubeFences(client).prove(ring.name)),
        users=members if isinstance(members, Unread) else await guarded(_users(client, members)),
    )


async def _users(client: Client, members: Members) -> dict[ObjectRef, str | None]:
    leases = [ObjectRef(members.namespaces[shard], shard) for shard in sorted(members.available)]
    return {ref: await _user(client, ref) for ref in leases}


async def _user(client: Client, ref: ObjectRef) -> str | None:
    try:
        pod = await pod_of(client, ref)
    except NotFound:
        return None
    return service_account(ObjectRef(ref.namespace, pod.spec.service_account_name))[0]

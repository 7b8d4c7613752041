"""The checks of the CRD, of the sharder's leader and certificates, and of each ring's webhook.

The API server silently drops fields that are not in the schema of the CRD.

It admits objects even if the webhook does not answer, and an object can lack an owner for other
reasons.  So a probe is a request with an owner label that no shard has.  The webhook always
replaces or removes that label, so if it comes back, the webhook was not called.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from msgspec import inspect

from sharder.core.api.cluster import Schema
from sharder.core.api.lease import Lease, parse_time
from sharder.core.api.meta import Json, PartialObject
from sharder.core.api.ring import ControllerRing, RingSpec, RingStatus
from sharder.core.diagnosis.finding import Finding, Unread, fail, ok, unknown, warn
from sharder.core.leases.state import duration_of
from sharder.core.names import GroupResource, ObjectRef, owner_label, webhook_configuration
from sharder.core.ring.build import roles_of
from sharder.core.ring.snapshot import Role
from sharder.core.texts import named

CRD, LEADER, CERTIFICATES = "crd", "leader", "certificates"

_INSTALL: Final = "install the CRD of this release: run helm upgrade --install"
_PARTS: Final = {"spec": inspect.type_info(RingSpec), "status": inspect.type_info(RingStatus)}


def crd(schema: Schema | Unread | None) -> Finding:
    """Return whether ControllerRings are served with all fields; None: they are not served."""
    if isinstance(schema, Unread):
        return unknown(CRD, schema)
    if schema is None:
        return fail(CRD, "the cluster does not serve ControllerRings", _INSTALL)
    missing = missing_in(schema)
    if not missing:
        return ok(CRD, "ControllerRings are served with all fields of this release")
    return fail(CRD, f"the CRD is too old: it lacks {named(missing, 5)}", _INSTALL)


def missing_in(schema: Schema) -> list[str]:
    """Return the fields and values of this release that the schema of the ring lacks."""
    return [
        path
        for name, type_ in _PARTS.items()
        for path in _missing(type_, schema.properties.get(name) or Schema(), name)
    ]


def _missing(type_: inspect.Type, schema: Schema, path: str) -> Iterator[str]:
    match type_:
        case inspect.StructType(fields=fields):
            for field in fields:
                below, known = f"{path}.{field.encode_name}", schema.properties
                if field.encode_name not in known:
                    yield below
                else:
                    yield from _missing(field.type, known[field.encode_name], below)
        case inspect.VarTupleType(item_type=item):
            yield from _missing(item, schema.items or Schema(), f"{path}[]")
        case inspect.UnionType(types=types):
            for each in types:
                yield from _missing(each, schema, path)
        case inspect.EnumType(cls=values):
            yield from (f"{path}={each.value}" for each in values if each.value not in schema.enum)
        case _:
            pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The times of a certificate."""

    role: str
    not_before: datetime
    not_after: datetime
    ends_soon: bool
    """Whether it should already have been replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """The contents of the Secret with the certificates."""

    secret: ObjectRef
    foreign: bool
    """Whether another program issues and replaces the serving certificate."""
    problem: str | None
    """Why the webhook cannot serve the certificate, or None."""
    certificates: tuple[Certificate, ...]


def leader(lease: Lease | Unread | None, ref: ObjectRef, now: datetime) -> Finding:
    """Return whether a replica is leader, according to the Lease."""
    if isinstance(lease, Unread):
        return unknown(LEADER, lease)
    advice = (
        "check that a replica runs and reaches the API server: "
        f"kubectl -n {ref.namespace} get pods"
    )
    if lease is None:
        message = f"no replica leads: there is no Lease {ref}"
        where = "if the sharder is in another namespace, name it with --namespace"
        return fail(LEADER, message, f"{advice}; {where}")
    renewed, holder = parse_time(lease.spec.renew_time), lease.spec.holder_identity
    if not holder or renewed is None:
        return fail(LEADER, f"no replica leads: the Lease {ref} has no holder", advice)
    age, duration = now - renewed, duration_of(lease)
    if age >= duration:
        message = f"no replica leads: {holder} last renewed the Lease {ref} {_ago(age)}"
        return fail(LEADER, f"{message}; it lasts only {_seconds(duration)}", advice)
    return ok(LEADER, f"{holder} leads, and renewed the Lease {ref} {_ago(age)}")


def certificates(found: Certificates | Unread, now: datetime) -> Iterator[Finding]:
    """Yield the problems of the certificates in the sharder's Secret, or when they expire."""
    if isinstance(found, Unread):
        yield unknown(CERTIFICATES, found)
        return
    repair = (
        "renew it where it was issued"
        if found.foreign
        else "the sharder repairs it within seconds: check that a replica is running, and its log"
    )
    faults = [*_faults(found, now)]
    for message in faults:
        yield fail(CERTIFICATES, message, repair)
    ending = [each for each in found.certificates if each.ends_soon and now < each.not_after]
    for each in ending:
        message = f"the {each.role} certificate expires in {_left(each, now)}"
        yield warn(CERTIFICATES, message, repair)
    if not faults and not ending:
        ends = (f"{each.role} expires in {_left(each, now)}" for each in found.certificates)
        yield ok(CERTIFICATES, f"Secret {found.secret}: {', '.join(ends)}")


def _faults(found: Certificates, now: datetime) -> Iterator[str]:
    if found.problem is not None:
        yield f"Secret {found.secret} is unusable: {found.problem}"
        return
    for each in found.certificates:
        if now >= each.not_after:
            yield f"the {each.role} certificate expired at {each.not_after:%Y-%m-%dT%H:%M:%SZ}"
        elif now < each.not_before:
            start = f"{each.not_before:%Y-%m-%dT%H:%M:%SZ}"
            yield f"the {each.role} certificate is not valid before {start}"


def _left(certificate: Certificate, now: datetime) -> str:
    left = certificate.not_after - now
    days = left // timedelta(days=1)
    if not days:
        return f"{left // timedelta(hours=1)}h"
    return f"{days} day{'' if days == 1 else 's'}"


def _ago(age: timedelta) -> str:
    return f"{_seconds(max(age, timedelta()))} ago"


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():.0f}s"


CONFIGURATION, WEBHOOK = "configuration", "webhook"

NO_SHARD: Final = "sharder-check"
"""The owner label of a probe."""

_KINDS: Final = {"configmaps": "ConfigMap", "secrets": "Secret"}
"""Resources of the core group whose objects can be created without content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The webhook configuration of a ring."""

    has_ca: bool
    """Whether every webhook has a caBundle."""
    trusts: bool | Unread
    """Whether every caBundle contains the authority that issued the serving certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a probe."""

    request: str
    """The request that was sent, in words."""
    owner: str
    """The owner label in the answer, empty if there is none."""


def probe_of(ring: ControllerRing) -> tuple[GroupResource, Json] | None:
    """Return an object of the ring that can be created in a dry run, and its resource.

    The result is None if no resource allows that, or if the objectSelector does not determine the
    labels of the object.
    """
    selector = ring.spec.object_selector
    labels = {} if selector is None else dict(selector.match_labels)
    if selector is not None and not selector.matches(labels):
        return None
    for resource, role in sorted(roles_of(ring).items()):
        if role is not Role.CONTROLLED and not resource.group and resource.resource in _KINDS:
            return resource, {
                "apiVersion": "v1",
                "kind": _KINDS[resource.resource],
                "metadata": {
                    "generateName": f"{NO_SHARD}-",
                    "labels": {**labels, owner_label(ring.name): NO_SHARD},
                },
            }
    return None


def relabelled(ring: ControllerRing) -> Json:
    """Return the patch that probes with an existing object, if none can be created."""
    return {"metadata": {"labels": {owner_label(ring.name): NO_SHARD}}}


def answer_of(ring: ControllerRing, request: str, obj: PartialObject) -> Answer:
    """Return the answer to a probe, given the object in the response."""
    return Answer(request=request, owner=obj.metadata.label(owner_label(ring.name)))


def configuration(ring: ControllerRing, found: Configuration | Unread | None) -> Finding:
    """Return whether the webhook configuration of the ring exists and has the right CA."""
    if isinstance(found, Unread):
        return unknown(CONFIGURATION, found, ring=ring.name)
    name = f"MutatingWebhookConfiguration {webhook_configuration(ring.name)}"
    if found is None:
        advice = (
            "the leader applies it within 30s: check that a replica leads, and the condition Ready"
        )
        return fail(CONFIGURATION, f"there is no {name}", advice, ring=ring.name)
    if isinstance(found.trusts, Unread):
        return unknown(CONFIGURATION, found.trusts, ring=ring.name)
    if found.trusts:
        message = f"{name} trusts the serving certificate"
        return ok(CONFIGURATION, message, ring=ring.name)
    if not found.has_ca:
        advice = "set webhook.config.clientConfig.caBundle, or let cert-manager inject it"
        return warn(CONFIGURATION, f"{name} has no caBundle", advice, ring=ring.name)
    message = f"the caBundle of {name} lacks the authority of the serving certificate"
    advice = "the leader corrects it within 30s: check whether another client writes it"
    return fail(CONFIGURATION, message, advice, ring=ring.name)


def webhook(ring: ControllerRing, found: Answer | Unread, *, available: int) -> Finding:
    """Return whether the API server reached the webhook; `available` is the number of shards."""
    if isinstance(found, Unread):
        return unknown(WEBHOOK, found, ring=ring.name)
    if found.owner == NO_SHARD:
        advice = (
            f'look for "failing open" in the log of the API server, and at the findings of '
            f"{CONFIGURATION} and certificates; the API server must reach port 9443 of the pods"
        )
        message = f"the API server got no answer from the webhook for {found.request}"
        return fail(WEBHOOK, message, advice, ring=ring.name)
    if found.owner:
        message = f"the webhook answered {found.request}: the owner is {found.owner}"
        return ok(WEBHOOK, message, ring=ring.name)
    message = f"the webhook answered {found.request}, but assigned no owner"
    if not available:
        return ok(WEBHOOK, f"{message}, because no shard is available", ring=ring.name)
    advice = (
        f"see whether shards have room: sharder shards {ring.name}; in the first seconds after "
        "its start the webhook leaves objects to the leader"
    )
    return warn(WEBHOOK, message, advice, ring=ring.name)

"""The checks of the CRD, of the sharder's leader and certificates, and of each ring's webhook.

The API server silently drops fields that are not in the schema of the CRD.

It admits objects even if the webhook does not answer, and an object can lack an owner for other
reasons.  So a probe is a request with an owner label that no shard has.  The webhook always
replaces or removes that label, so if it comes back, the webhook was not called.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec import inspect

from sharder.core.api.cluster import Schema, WebhookConfiguration
from sharder.core.api.lease import Lease, parse_time
from sharder.core.api.meta import Json, PartialObject
from sharder.core.api.ring import ControllerRing, RingSpec, RingStatus
from sharder.core.diagnosis.finding import Finding, fail, ok, warn
from sharder.core.leases.state import duration_of
from sharder.core.names import GroupResource, ObjectRef, owner_label, webhook_configuration
from sharder.core.ring.build import roles_of
from sharder.core.ring.snapshot import Role
from sharder.core.texts import counted, named

CRD, LEADER, CERTIFICATES = "crd", "leader", "certificates"

_INSTALL: Final = "install the CRD of this release: run helm upgrade --install"
SOON: Final = timedelta(days=7)
"""How long before its end a certificate is reported, or a tenth of a shorter lifetime;
cert-manager renews when a third is left."""

_PARTS: Final = {"spec": inspect.type_info(RingSpec), "status": inspect.type_info(RingStatus)}


def crd(schema: Schema | None) -> Finding:
    """Return whether ControllerRings are served with all fields; None: they are not served."""
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


class CertificateRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One certificate."""

    role: str
    """`serving`; of authorities `issuing`, or `retiring`: trusted still."""
    subject: str
    names: tuple[str, ...]
    """DNS names and IP addresses; none for an authority."""
    not_before: str
    not_after: str
    days_left: int
    """Whole days until `notAfter`, negative after it."""
    fingerprint: str
    """SHA-256."""


class CertificatesReport(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the Secret of the certificates; also what `sharder certs` prints."""

    secret: str
    """`namespace/name`."""
    foreign: bool
    """Whether another issuer made the certificate."""
    requested: str | None
    """A requested replacement that has not begun: `serving` or `authority`."""
    problem: str | None
    """Why the webhook cannot use the Secret, or None."""
    certificates: tuple[CertificateRow, ...]
    """The serving certificate first, then its authorities."""


def leader(lease: Lease | None, ref: ObjectRef, now: datetime) -> Finding:
    """Return whether a replica is leader, according to the Lease."""
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


def certificates(found: CertificatesReport, now: datetime) -> Iterator[Finding]:
    """Yield the problems of the certificates in the sharder's Secret, or when they expire."""
    repair = (
        "renew it where it was issued"
        if found.foreign
        else "the sharder repairs it within seconds: check that a replica is running, and its log"
    )
    if found.problem is not None:
        yield fail(CERTIFICATES, f"Secret {found.secret} is unusable: {found.problem}", repair)
        return
    findings = [each for row in found.certificates for each in _of_one(row, now, repair)]
    ends = ", ".join(f"{row.role} expires in {_left(row, now)}" for row in found.certificates)
    yield from findings or [ok(CERTIFICATES, f"Secret {found.secret}: {ends}")]


def _of_one(row: CertificateRow, now: datetime, repair: str) -> Iterator[Finding]:
    begin, end = datetime.fromisoformat(row.not_before), datetime.fromisoformat(row.not_after)
    name = f"the {row.role} certificate"
    if now >= end:
        yield fail(CERTIFICATES, f"{name} expired at {row.not_after}", repair)
    elif now < begin:
        yield fail(CERTIFICATES, f"{name} is not valid before {row.not_before}", repair)
    elif now >= end - min(SOON, (end - begin) / 10):
        yield warn(CERTIFICATES, f"{name} expires in {_left(row, now)}", repair)


def _left(row: CertificateRow, now: datetime) -> str:
    left = datetime.fromisoformat(row.not_after) - now
    return counted(left.days, "day") if left.days else f"{left // timedelta(hours=1)}h"


def _ago(age: timedelta) -> str:
    return f"{_seconds(max(age, timedelta()))} ago"


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():.0f}s"


CONFIGURATION, WEBHOOK = "configuration", "webhook"

NO_SHARD: Final = "sharder-check"
"""The owner label of a probe."""

NO_RESOURCES: Final = (
    "the ring has no resources, so it assigns nothing",
    "list resources in spec.resources",
)
"""What a check of a ring without resources finds, and what to do."""

_KINDS: Final = {"configmaps": "ConfigMap", "secrets": "Secret"}
"""Resources of the core group whose objects can be created without content."""


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


def configuration(
    ring: ControllerRing, found: WebhookConfiguration | None, trusts: Callable[[str], bool]
) -> Finding:
    """Return whether the webhook configuration of the ring exists and has the right CA.

    `trusts` returns whether a caBundle contains the authority of the serving certificate.
    """
    if not roles_of(ring):
        return warn(CONFIGURATION, *NO_RESOURCES)
    name = f"MutatingWebhookConfiguration {webhook_configuration(ring.name)}"
    if found is None:
        advice = (
            "the leader applies it within 30s: check that a replica leads, and the condition Ready"
        )
        return fail(CONFIGURATION, f"there is no {name}", advice)
    bundles = [each.client_config.ca_bundle for each in found.webhooks or ()]
    if not bundles or not all(bundles):
        advice = "set webhook.config.clientConfig.caBundle, or let cert-manager inject it"
        return warn(CONFIGURATION, f"{name} has no caBundle", advice)
    if all(map(trusts, bundles)):
        message = f"{name} trusts the serving certificate"
        return ok(CONFIGURATION, message)
    message = f"the caBundle of {name} lacks the authority of the serving certificate"
    advice = "the leader corrects it within 30s: check whether another client writes it"
    return fail(CONFIGURATION, message, advice)


def webhook(ring: ControllerRing, request: str, obj: PartialObject, *, available: int) -> Finding:
    """Return whether the API server reached the webhook.

    Args:
        ring: The ring.
        request: The probe in words.
        obj: The object in the response.
        available: The number of available shards.
    """
    owner = obj.metadata.label(owner_label(ring.name))
    if owner == NO_SHARD:
        advice = (
            f'look for "failing open" in the log of the API server, and at the findings of '
            f"{CONFIGURATION} and certificates; the API server must reach port 9443 of the pods"
        )
        message = f"the API server got no answer from the webhook for {request}"
        return fail(WEBHOOK, message, advice)
    if owner:
        message = f"the webhook answered {request}: the owner is {owner}"
        return ok(WEBHOOK, message)
    message = f"the webhook answered {request}, but assigned no owner"
    if not available:
        return ok(WEBHOOK, f"{message}, because no shard is available")
    advice = (
        f"see whether shards have room: sharder shards {ring.name}; in the first seconds after "
        "its start the webhook leaves objects to the leader"
    )
    return warn(WEBHOOK, message, advice)

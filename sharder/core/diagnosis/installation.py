"""The checks of the CRD, and of the sharder's leader and certificates.

The API server silently drops fields that are not in the schema of the CRD.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from msgspec import inspect

from sharder.core.api.cluster import Schema
from sharder.core.api.lease import Lease, parse_time
from sharder.core.api.ring import RingSpec, RingStatus
from sharder.core.diagnosis.finding import Finding, Unread, fail, ok, unknown, warn
from sharder.core.leases.state import duration_of
from sharder.core.names import ObjectRef
from sharder.core.plurals import named

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

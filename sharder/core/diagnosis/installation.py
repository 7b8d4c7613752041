"""The checks of the sharder's replicas, leader, certificates and clock."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sharder.core.api.cluster import Deployment
from sharder.core.api.lease import Lease, parse_time
from sharder.core.diagnosis.finding import Finding, Unread, fail, ok, unknown, warn
from sharder.core.diagnosis.shards import MAX_SKEW
from sharder.core.leases.state import duration_of
from sharder.core.names import ObjectRef

REPLICAS, LEADER, CERTIFICATES, CLOCK = "replicas", "leader", "certificates", "clock"

CONTAINER: Final = "sharder"
"""The name of the container by which the sharder's Deployment is recognized."""


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


def is_sharder(deployment: Deployment) -> bool:
    """Return whether a Deployment runs the sharder."""
    return any(each.name == CONTAINER for each in deployment.spec.template.spec.containers)


def replicas(found: Iterable[Deployment] | Unread, namespace: str) -> Iterator[Finding]:
    """Yield whether the replicas of the sharder's Deployments in a namespace are ready."""
    if isinstance(found, Unread):
        yield unknown(REPLICAS, found)
        return
    ours = [each for each in found if is_sharder(each)]
    if not ours:
        yield warn(
            REPLICAS,
            f"the namespace {namespace} has no Deployment with a container {CONTAINER}",
            "pass the sharder's namespace with --namespace, or ignore this if no Deployment runs "
            "the sharder",
        )
    for each in ours:
        name = f"Deployment {each.metadata.ref}"
        ready, wanted = each.status.ready_replicas, each.spec.replicas
        message = f"{name} has {ready} of {wanted} replicas ready"
        logs = f"kubectl -n {namespace} logs deployment/{each.metadata.name}"
        if not wanted:
            scale = f"kubectl -n {namespace} scale deployment {each.metadata.name} --replicas 2"
            yield fail(REPLICAS, f"{name} is scaled to 0", f"start it: {scale}")
        elif ready < wanted:
            yield (warn if ready else fail)(REPLICAS, message, f"see why: {logs}")
        else:
            yield ok(REPLICAS, message)


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


def clock(skew: timedelta) -> Finding:
    """Return whether this machine's clock agrees with that of the API server.

    The API server's clock is ahead by `skew`.  This matters only for commands: shards and the
    sharder measure durations on their own clocks.
    """
    if abs(skew) < MAX_SKEW:
        return ok(CLOCK, "the clock of this machine agrees with the API server's")
    side = "behind" if skew > timedelta() else "ahead of"
    message = f"the clock of this machine is {_seconds(abs(skew))} {side} the API server's"
    return warn(CLOCK, message, "correct it: commands compare Leases and certificates with it")


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

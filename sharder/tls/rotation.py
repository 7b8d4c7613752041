"""Replace certificates while they are in use: the next step, and its result.

Clients trust all authorities of a bundle.  An authority is replaced in three phases; each phase
must have reached every client before the next phase begins:

    stable       one authority is trusted and issues
    introducing  the next authority is also trusted, but does not issue yet
    retiring     the next authority issues; the previous authority is still trusted

`introducing` and `retiring` end when every webhook configuration has trusted both authorities for
the overlap.  The phase is read from the bundle, so the next leader continues where the previous
one stopped; only the wait starts again.

A replica that cannot read the Secret, or a scraper that verifies, for longer than the overlap is
left behind until it reads the new authority.  If the Secret is replaced, or lost while a replica
starts, there is a new authority, and calls fail until the leader has written it to the webhook
configurations, within seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from sharder.tls.bundle import CertificateBundle
from sharder.tls.facts import CertificateFacts, facts_of, issued_by
from sharder.tls.issue import KeyPair, issue_serving, make_authority, own_certificate


class Phase(StrEnum):
    """The phase of a bundle in the replacement of its authority."""

    STABLE = "stable"
    INTRODUCING = "introducing"
    RETIRING = "retiring"


class Request(StrEnum):
    """The certificate that a user requests to replace early."""

    SERVING = "serving"
    AUTHORITY = "authority"


class Step(StrEnum):
    """A step of the replacement; a log field."""

    KEEP = "keep"
    RENEW = "renew the serving certificate"
    INTRODUCE = "introduce the next authority"
    SWITCH = "serve a certificate of the next authority"
    RETIRE = "retire the last authority"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The configuration of serving certificates."""

    names: Sequence[str]
    """DNS names and IP addresses under which the webhook is called."""
    validity: timedelta
    rotate_before: timedelta
    """How long before its end a serving certificate is renewed; less than `validity`."""


def phase_of(bundle: CertificateBundle) -> Phase:
    """Return the phase of a bundle for which `problem` returns None."""
    if bundle.next_key:
        return Phase.INTRODUCING
    return Phase.RETIRING if len(facts_of(bundle.ca)) > 1 else Phase.STABLE


def next_step(
    bundle: CertificateBundle,
    policy: Policy,
    now: datetime,
    *,
    requested: Request | None,
    drives: bool,
    settled: bool,
) -> Step:
    """Return the next step for a bundle for which `problem` returns None.

    Args:
        bundle: The bundle in the Secret.
        policy: The configuration of this replica.
        now: The current time, aware.
        requested: The replacement that a user requests, None without a request.
        drives: Whether this replica replaces authorities; other replicas only renew.
        settled: Whether every webhook configuration trusts all authorities of the bundle, and has
            trusted them for so long that all replicas have read the bundle.
    """
    if drives:
        match phase_of(bundle):
            case Phase.INTRODUCING if settled:
                return Step.SWITCH
            case Phase.RETIRING if settled:
                return Step.RETIRE if _is_own(bundle) else Step.SWITCH
            case Phase.STABLE if requested is Request.AUTHORITY or _is_due(bundle, policy, now):
                return Step.INTRODUCE
            case _:
                pass
    is_requested = requested is Request.SERVING
    return Step.RENEW if is_requested or _ends_soon(bundle, policy, now) else Step.KEEP


def carry_out(
    step: Step, bundle: CertificateBundle, policy: Policy, now: datetime
) -> CertificateBundle:
    """Return the bundle after the step that `next_step` returned for it."""
    match step:
        case Step.KEEP:
            return bundle
        case Step.RENEW:
            return renewed(bundle, policy, now)
        case Step.INTRODUCE:
            return introduced(bundle, make_authority(now))
        case Step.SWITCH:
            return renewed(
                replace(bundle, ca_key=bundle.next_key or bundle.ca_key, next_key=b""), policy, now
            )
        case Step.RETIRE:
            return replace(bundle, ca=own_certificate(bundle.authority))


def new_bundle(policy: Policy, now: datetime) -> CertificateBundle:
    """Return a bundle with a new authority, and a serving certificate that it issues."""
    authority = make_authority(now)
    without_serving = CertificateBundle(
        ca=authority.certificate, ca_key=authority.key, certificate=b"", key=b""
    )
    return renewed(without_serving, policy, now)


def renewed(bundle: CertificateBundle, policy: Policy, now: datetime) -> CertificateBundle:
    """Return the bundle with a new serving certificate of the issuing authority.

    The new certificate keeps the names of the previous certificate: otherwise replicas with
    different configurations, as during an upgrade, would replace each other's certificates
    forever.

    Raises:
        ConfigError: the authority is unusable or has expired, or a name cannot be encoded.
    """
    before = facts_of(bundle.certificate)[:1]
    names = dict.fromkeys([*policy.names, *(name for facts in before for name in facts.names)])
    serving = issue_serving(bundle.authority, names=names, now=now, validity=policy.validity)
    return replace(bundle, certificate=serving.certificate, key=serving.key)


def introduced(bundle: CertificateBundle, authority: KeyPair) -> CertificateBundle:
    """Return the bundle with `authority` added as the next authority, which is trusted too."""
    both = facts_of(bundle.ca.rstrip() + b"\n" + authority.certificate)
    return replace(bundle, ca=b"".join(facts.pem for facts in both), next_key=authority.key)


def _issuer(bundle: CertificateBundle) -> CertificateFacts:
    return facts_of(own_certificate(bundle.authority))[0]


def _is_own(bundle: CertificateBundle) -> bool:
    """Return whether the issuing authority issued the serving certificate."""
    return bool(issued_by(bundle.certificate, [_issuer(bundle)]))


def _ends_soon(bundle: CertificateBundle, policy: Policy, now: datetime) -> bool:
    """Return whether the serving certificate expires soon and a new one would expire later."""
    end = facts_of(bundle.certificate)[0].not_after
    possible = min(now + policy.validity, _issuer(bundle).not_after)
    return end - now <= policy.rotate_before and end < possible


def _is_due(bundle: CertificateBundle, policy: Policy, now: datetime) -> bool:
    """Return whether the authority expires before a certificate that it would issue now.

    The limit is half of the authority's own lifetime: a longer `validity` would otherwise lead to
    constant replacements.
    """
    issuer = _issuer(bundle)
    return issuer.not_after - now < min(
        policy.validity, (issuer.not_after - issuer.not_before) / 2
    )

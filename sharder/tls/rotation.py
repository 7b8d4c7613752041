"""Replace certificates while they are in use.

A serving certificate is renewed under its authority, so every client trusts the new one.  A new
authority is needed every ten years, or on request.  Calls of the webhook fail until the leader has
written it to the webhook configurations, within seconds, and the API server ignores such failures;
the leader then assigns the objects that were created meanwhile.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from sharder.tls.bundle import CertificateBundle
from sharder.tls.facts import facts_of
from sharder.tls.issue import issue_serving, issuer_of, make_authority


class Part(StrEnum):
    """What is replaced; a user can request it early."""

    SERVING = "serving"
    AUTHORITY = "authority"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The configuration of serving certificates."""

    names: Sequence[str]
    """DNS names and IP addresses under which the webhook is called."""
    validity: timedelta
    rotate_before: timedelta
    """How long before its end a serving certificate is renewed; less than `validity`."""


def due(
    bundle: CertificateBundle,
    policy: Policy,
    now: datetime,
    *,
    requested: Part | None,
    leads: bool,
) -> Part | None:
    """Return what to replace of a bundle for which `problem` returns None; None: nothing.

    Only the leader replaces the authority.
    """
    if leads and (requested is Part.AUTHORITY or _is_due(bundle, policy, now)):
        return Part.AUTHORITY
    is_requested = requested is Part.SERVING
    return Part.SERVING if is_requested or _ends_soon(bundle, policy, now) else None


def replaced(
    bundle: CertificateBundle, part: Part, policy: Policy, now: datetime
) -> CertificateBundle:
    """Return the bundle with a new serving certificate, of a new authority if `part` is that."""
    if part is Part.AUTHORITY:
        bundle = replace(bundle, authority=make_authority(now))
    return renewed(bundle, policy, now)


def new_bundle(policy: Policy, now: datetime) -> CertificateBundle:
    """Return a bundle with a new authority, and a serving certificate that it issues."""
    return replaced(CertificateBundle.from_secret_data({}), Part.AUTHORITY, policy, now)


def renewed(bundle: CertificateBundle, policy: Policy, now: datetime) -> CertificateBundle:
    """Return the bundle with a new serving certificate of the issuing authority.

    The new certificate keeps the names of the previous certificate: otherwise replicas with
    different configurations, as during an upgrade, would replace each other's certificates
    forever.

    Raises:
        ConfigError: the authority is unusable or has expired, or a name cannot be encoded.
    """
    before = facts_of(bundle.serving.certificate)[:1]
    names = dict.fromkeys([*policy.names, *(name for facts in before for name in facts.names)])
    serving = issue_serving(bundle.authority, names=names, now=now, validity=policy.validity)
    return replace(bundle, serving=serving)


def _ends_soon(bundle: CertificateBundle, policy: Policy, now: datetime) -> bool:
    """Return whether the serving certificate expires soon and a new one would expire later."""
    end = facts_of(bundle.serving.certificate)[0].not_after
    issuer, _ = issuer_of(bundle.authority)
    possible = min(now + policy.validity, issuer.not_valid_after_utc)
    return end - now <= policy.rotate_before and end < possible


def _is_due(bundle: CertificateBundle, policy: Policy, now: datetime) -> bool:
    """Return whether the authority expires before a certificate that it would issue now.

    The limit is half of the authority's own lifetime: a longer `validity` would otherwise lead to
    constant replacements.
    """
    issuer, _ = issuer_of(bundle.authority)
    begin, end = issuer.not_valid_before_utc, issuer.not_valid_after_utc
    return end - now < min(policy.validity, (end - begin) / 2)

"""What `sharder check` judges of the Secret of the certificates."""

from collections.abc import Iterator
from datetime import datetime

from sharder.core.api.cluster import Secret
from sharder.core.diagnosis.installation import Certificate, Certificates
from sharder.core.errors import ConfigError
from sharder.tls.bundle import CertificateBundle, problem, serving_problem
from sharder.tls.facts import CertificateFacts, facts_of
from sharder.tls.issue import SERVING_NAME, KeyPair, own_certificate


def bundle_of(secret: Secret) -> CertificateBundle:
    """Return the certificates and keys in a Secret."""
    return CertificateBundle.from_secret_data(secret.data or {})


def certificates_of(secret: Secret, now: datetime) -> Certificates:
    """Return what `sharder check` judges of a Secret."""
    bundle = bundle_of(secret)
    return Certificates(
        secret=secret.metadata.ref,
        foreign=is_foreign(bundle),
        problem=problem_of(bundle, now),
        certificates=tuple(
            Certificate(
                role=role,
                not_before=facts.not_before,
                not_after=facts.not_after,
                ends_soon=facts.ends_soon(now),
            )
            for role, facts in listed(bundle)
        ),
    )


def problem_of(bundle: CertificateBundle, now: datetime) -> str | None:
    """Return why the webhook cannot serve the certificate, None if it can."""
    if is_foreign(bundle):
        return serving_problem(bundle.serving, (), now)
    return problem(bundle, (), now)


def is_foreign(bundle: CertificateBundle) -> bool:
    """Return whether another issuer made the certificate; False for our own, damaged Secret."""
    subjects = {facts.subject for facts in facts_of(bundle.certificate)[:1]}
    return not bundle.ca_key and bool(subjects - {f"CN={SERVING_NAME}"})


def listed(bundle: CertificateBundle) -> Iterator[tuple[str, CertificateFacts]]:
    """Yield the serving certificate, then all authorities that the API server should trust."""
    for facts in facts_of(bundle.certificate)[:1]:
        yield "serving", facts
    if is_foreign(bundle):
        return
    issuing = _fingerprint(bundle.authority)
    for facts in facts_of(bundle.ca):
        yield "issuing" if facts.fingerprint == issuing else "retiring", facts


def _fingerprint(authority: KeyPair) -> str:
    """Return the fingerprint of the authority's certificate, empty if there is no certificate."""
    try:
        return facts_of(own_certificate(authority))[0].fingerprint
    except ConfigError:
        return ""

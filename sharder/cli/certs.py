"""`sharder certs`: show the Secret of the certificates, and request new certificates."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from sharder.cli.cluster import Cluster
from sharder.cli.reports import CertificateRole, CertificateRow, CertificatesReport
from sharder.core.api.cluster import Secret
from sharder.core.api.meta import Json
from sharder.core.diagnosis.installation import Certificate, Certificates
from sharder.core.errors import ConfigError, NotFound
from sharder.core.names import ROTATE_ANNOTATION, ObjectRef
from sharder.tls.bundle import CertificateBundle, problem, serving_problem
from sharder.tls.facts import CertificateFacts, facts_of
from sharder.tls.issue import SERVING_NAME, KeyPair, own_certificate
from sharder.tls.rotation import Phase, Request, phase_of


async def show(cluster: Cluster, *, ref: ObjectRef) -> CertificatesReport:
    """Return the report of the Secret, without keys.

    Raises:
        ApiError: the Secret cannot be read.
        ConfigError: the Secret does not exist.
    """
    return report_of(await _find(cluster, ref), cluster.now)


async def rotate(cluster: Cluster, *, ref: ObjectRef, request: str) -> str:
    """Request new certificates; return a sentence for people.

    Raises:
        ApiError: the Secret cannot be read or written.
        ConfigError: the Secret does not exist, or its certificate cannot be replaced now.
    """
    secret = await _find(cluster, ref)
    report = report_of(secret, cluster.now)
    if report.foreign:
        raise ConfigError(
            f"the certificate in Secret {ref} was not issued by sharder: renew it at its issuer"
        )
    if report.problem is not None:
        raise ConfigError(
            f"Secret {ref} is unusable: {report.problem}; a running sharder repairs it"
        )
    if request == Request.AUTHORITY and report.phase is not Phase.STABLE:
        raise ConfigError(
            f"the authority in Secret {ref} is already being replaced, in phase {report.phase}: "
            f'wait until "sharder certs" shows phase {Phase.STABLE}'
        )
    metadata: dict[str, Json] = {
        "resourceVersion": secret.metadata.resource_version,
        "annotations": {ROTATE_ANNOTATION: request},
    }
    await cluster.secrets.patch(ref, {"metadata": metadata})
    return f'requested a new {request} certificate; "sharder certs" shows the progress'


async def _find(cluster: Cluster, ref: ObjectRef) -> Secret:
    try:
        return await cluster.secrets.get(ref)
    except NotFound as error:
        raise ConfigError(
            f"Secret {ref} not found: set --namespace and --secret to the Secret in the "
            "sharder's configuration, or to the one that its pods mount (sharder-cert-manager "
            "with cert-manager)"
        ) from error


def bundle_of(secret: Secret) -> CertificateBundle:
    """Return the certificates and keys in a Secret."""
    return CertificateBundle.from_secret_data(secret.data or {})


def certificates_of(secret: Secret, now: datetime) -> Certificates:
    """Return what `sharder check` judges of a Secret."""
    bundle = bundle_of(secret)
    return Certificates(
        secret=secret.metadata.ref,
        foreign=_is_foreign(bundle),
        problem=_fault(bundle, now),
        certificates=tuple(
            Certificate(
                role=role,
                not_before=facts.not_before,
                not_after=facts.not_after,
                ends_soon=facts.ends_soon(now),
            )
            for role, facts in _listed(bundle)
        ),
    )


def report_of(secret: Secret, now: datetime) -> CertificatesReport:
    """Return the report of a Secret, without keys."""
    bundle = bundle_of(secret)
    foreign, fault = _is_foreign(bundle), _fault(bundle, now)
    return CertificatesReport(
        secret=str(secret.metadata.ref),
        phase=None if fault or foreign else phase_of(bundle),
        foreign=foreign,
        requested=secret.metadata.annotation(ROTATE_ANNOTATION) or None,
        problem=fault,
        certificates=tuple(_row(facts, role, now) for role, facts in _listed(bundle)),
    )


def _fault(bundle: CertificateBundle, now: datetime) -> str | None:
    """Return why the webhook cannot serve the certificate, or None."""
    if _is_foreign(bundle):
        return serving_problem(bundle.serving, (), now)
    return problem(bundle, (), now)


def _is_foreign(bundle: CertificateBundle) -> bool:
    """Return whether another issuer made the certificate; False for our own, damaged Secret."""
    subjects = {facts.subject for facts in facts_of(bundle.certificate)[:1]}
    return not bundle.ca_key and bool(subjects - {f"CN={SERVING_NAME}"})


def _listed(bundle: CertificateBundle) -> Iterator[tuple[CertificateRole, CertificateFacts]]:
    """Yield the serving certificate, then all authorities that the API server should trust."""
    for facts in facts_of(bundle.certificate)[:1]:
        yield CertificateRole.SERVING, facts
    if _is_foreign(bundle):
        return
    roles = {
        _fingerprint(bundle.next_authority): CertificateRole.NEXT,
        _fingerprint(bundle.authority): CertificateRole.ISSUING,
    }
    for facts in facts_of(bundle.ca):
        yield roles.get(facts.fingerprint, CertificateRole.RETIRING), facts


def _fingerprint(authority: KeyPair) -> str:
    """Return the fingerprint of the authority's certificate, empty if there is no certificate."""
    try:
        return facts_of(own_certificate(authority))[0].fingerprint
    except ConfigError:
        return ""


def _row(facts: CertificateFacts, role: CertificateRole, now: datetime) -> CertificateRow:
    return CertificateRow(
        role=role,
        subject=facts.subject,
        serial=facts.serial,
        names=facts.names,
        not_before=_time(facts.not_before),
        not_after=_time(facts.not_after),
        days_left=(facts.not_after - now) // timedelta(days=1),
        fingerprint=facts.fingerprint,
    )


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"

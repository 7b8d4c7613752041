"""`sharder certs`: show the Secret of the certificates, and request new certificates."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from cryptography.hazmat.primitives.serialization import Encoding

from sharder.cli.cluster import Cluster
from sharder.core.api.cluster import Secret
from sharder.core.api.meta import Json
from sharder.core.diagnosis.installation import CertificateRow, CertificatesReport
from sharder.core.errors import ConfigError, NotFound
from sharder.core.names import ROTATE_ANNOTATION, ObjectRef
from sharder.kube.typed_stores import secrets
from sharder.tls.bundle import CertificateBundle, problem, serving_problem
from sharder.tls.facts import CertificateFacts, facts_of
from sharder.tls.issue import SERVING_NAME, issuer_of


async def show(cluster: Cluster, *, ref: ObjectRef) -> CertificatesReport:
    """Return the report of the Secret, without keys; `ConfigError` if there is none."""
    return report_of(await _find(cluster, ref), cluster.now)


async def rotate(cluster: Cluster, *, ref: ObjectRef, request: str) -> str:
    """Request new certificates; return a sentence for people.

    Raises:
        ApiError: the Secret cannot be read or written.
        ConfigError: the Secret does not exist, or is of another issuer.
    """
    secret = await _find(cluster, ref)
    if _is_foreign(bundle_of(secret)):
        raise ConfigError(
            f"the certificate in Secret {ref} was not issued by sharder: renew it at its issuer"
        )
    metadata: Json = {
        "resourceVersion": secret.metadata.resource_version,
        "annotations": {ROTATE_ANNOTATION: request},
    }
    await secrets(cluster.client, namespace=ref.namespace).patch(ref, {"metadata": metadata})
    return f'requested a new {request} certificate; "sharder certs" shows it'


async def _find(cluster: Cluster, ref: ObjectRef) -> Secret:
    try:
        return await secrets(cluster.client, namespace=ref.namespace).get(ref)
    except NotFound as error:
        raise ConfigError(
            f"Secret {ref} not found: set --namespace and --secret to the Secret in the "
            "sharder's configuration, or to the one that its pods mount (sharder-cert-manager "
            "with cert-manager)"
        ) from error


def bundle_of(secret: Secret) -> CertificateBundle:
    """Return the certificates and keys in a Secret."""
    return CertificateBundle.from_secret_data(secret.data or {})


def report_of(secret: Secret, now: datetime) -> CertificatesReport:
    """Return the report of a Secret, without keys."""
    bundle = bundle_of(secret)
    foreign, serving = _is_foreign(bundle), bundle.serving
    return CertificatesReport(
        secret=str(secret.metadata.ref),
        foreign=foreign,
        requested=secret.metadata.annotation(ROTATE_ANNOTATION) or None,
        problem=serving_problem(serving, (), now) if foreign else problem(bundle, (), now),
        certificates=tuple(_row(facts, role, now) for role, facts in _listed(bundle)),
    )


def _row(facts: CertificateFacts, role: str, now: datetime) -> CertificateRow:
    return CertificateRow(
        role=role,
        subject=facts.subject,
        names=facts.names,
        not_before=f"{facts.not_before:%Y-%m-%dT%H:%M:%SZ}",
        not_after=f"{facts.not_after:%Y-%m-%dT%H:%M:%SZ}",
        days_left=(facts.not_after - now) // timedelta(days=1),
        fingerprint=facts.fingerprint,
    )


def _is_foreign(bundle: CertificateBundle) -> bool:
    """Return whether another issuer made the certificate; False for our own, damaged Secret."""
    subjects = {facts.subject for facts in facts_of(bundle.serving.certificate)[:1]}
    return not bundle.authority.key and bool(subjects - {f"CN={SERVING_NAME}"})


def _listed(bundle: CertificateBundle) -> Iterator[tuple[str, CertificateFacts]]:
    """Yield the serving certificate, then all authorities that the API server should trust."""
    for facts in facts_of(bundle.serving.certificate)[:1]:
        yield "serving", facts
    if _is_foreign(bundle):
        return
    try:
        issuer, _ = issuer_of(bundle.authority)
        own = issuer.public_bytes(Encoding.PEM)
    except ConfigError:
        own = b""
    for facts in facts_of(bundle.authority.certificate):
        yield "issuing" if facts.pem == own else "retiring", facts

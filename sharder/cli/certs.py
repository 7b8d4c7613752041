"""`sharder certs`: show the Secret of the certificates, and request new certificates."""

from datetime import datetime, timedelta

from sharder.cli.check_certificates import bundle_of, is_foreign, listed, problem_of
from sharder.cli.reports import CertificateRow, CertificatesReport
from sharder.core.api.cluster import Secret
from sharder.core.api.meta import Json
from sharder.core.errors import ConfigError, NotFound
from sharder.core.names import ROTATE_ANNOTATION, ObjectRef
from sharder.kube.client import Client
from sharder.kube.typed_stores import secrets
from sharder.runtime.clock import SystemClock
from sharder.tls.facts import CertificateFacts


async def show(client: Client, *, ref: ObjectRef) -> CertificatesReport:
    """Return the report of the Secret, without keys; `ConfigError` if there is none."""
    return report_of(await _find(client, ref), SystemClock().now())


async def rotate(client: Client, *, ref: ObjectRef, request: str) -> str:
    """Request new certificates; return a sentence for people.

    Raises:
        ApiError: the Secret cannot be read or written.
        ConfigError: the Secret does not exist, or is of another issuer.
    """
    secret = await _find(client, ref)
    if is_foreign(bundle_of(secret)):
        raise ConfigError(
            f"the certificate in Secret {ref} was not issued by sharder: renew it at its issuer"
        )
    metadata: Json = {
        "resourceVersion": secret.metadata.resource_version,
        "annotations": {ROTATE_ANNOTATION: request},
    }
    await secrets(client, namespace=ref.namespace).patch(ref, {"metadata": metadata})
    return f'requested a new {request} certificate; "sharder certs" shows it'


async def _find(client: Client, ref: ObjectRef) -> Secret:
    try:
        return await secrets(client, namespace=ref.namespace).get(ref)
    except NotFound as error:
        raise ConfigError(
            f"Secret {ref} not found: set --namespace and --secret to the Secret in the "
            "sharder's configuration, or to the one that its pods mount (sharder-cert-manager "
            "with cert-manager)"
        ) from error


def report_of(secret: Secret, now: datetime) -> CertificatesReport:
    """Return the report of a Secret, without keys."""
    bundle = bundle_of(secret)
    return CertificatesReport(
        secret=str(secret.metadata.ref),
        foreign=is_foreign(bundle),
        requested=secret.metadata.annotation(ROTATE_ANNOTATION) or None,
        problem=problem_of(bundle, now),
        certificates=tuple(_row(facts, role, now) for role, facts in listed(bundle)),
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

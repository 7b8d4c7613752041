"""Facts about what `sharder certs` and `check` show of the Secret of the certificates."""

import base64
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from sharder.cli.certs import report_of
from sharder.core.api.cluster import Secret
from sharder.core.api.meta import ObjectMeta
from sharder.tls.rotation import Policy, new_bundle
from tests.support.values import NOW

POLICY = Policy(
    names=("webhook.sharding-system.svc",),
    validity=timedelta(days=90),
    rotate_before=timedelta(days=30),
)
BUNDLE = new_bundle(POLICY, NOW)
LATER = NOW + timedelta(days=80, hours=1)


def secret(data: dict[str, str]) -> Secret:
    return Secret(metadata=ObjectMeta(name="certificates", namespace="sharding-system"), data=data)


def test_the_roles_of_our_certificates_are_shown() -> None:
    found = report_of(secret(BUNDLE.to_secret_data()), LATER)

    assert [each.role for each in found.certificates] == ["serving", "issuing"]
    assert (found.foreign, found.problem) == (False, None)
    assert next(each.days_left for each in found.certificates) == 9


def foreign(ends: datetime) -> dict[str, str]:
    """Return what cert-manager or `kubectl create secret tls` puts into a Secret."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "theirs")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(ends)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("sharder.sharding-system.svc")]),
            critical=False,
        )
        .sign(key, SHA256())
        .public_bytes(Encoding.PEM)
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    parts = {"tls.crt": certificate, "tls.key": private, "ca.crt": certificate}
    return {name: base64.b64encode(part).decode() for name, part in parts.items()}


def test_a_certificate_of_another_issuer_is_reported_as_theirs() -> None:
    found = report_of(secret(foreign(LATER + timedelta(days=30))), LATER)

    assert (found.foreign, found.problem) == (True, None)
    assert [each.role for each in found.certificates] == ["serving"]

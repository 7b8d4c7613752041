"""Our own authority, and the serving certificates that it issues.

ECDSA on P-256, random serial numbers (RFC 5280, section 4.1.2.2), and all extensions that strict
verifiers require (section 4.2; Go, and Python since 3.13).  Pure except for random numbers;
everything is PEM.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sharder.core.errors import ConfigError

AUTHORITY_VALIDITY = timedelta(days=3650)
"""The lifetime of a new authority (docs/install.md, "Scrape it"); the settings have the lifetime
of serving certificates."""

BACKDATED = timedelta(hours=1)
"""How far the clocks of clients can be behind the issuer's."""

SERVING_NAME: Final = "sharder webhook"
"""The common name of our serving certificates; certificates of other issuers have another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A certificate, or a chain that begins with it, and its private key; both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """Return the names under which a Service is reached inside the cluster, shortest first."""
    qualified = f"{service}.{namespace}"
    return (service, qualified, f"{qualified}.svc", f"{qualified}.svc.cluster.local")


def make_authority(now: datetime) -> KeyPair:
    """Return a new self-signed authority, valid from `now` (aware)."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("sharder webhook authority")
    builder = (
        _builder(name, key.public_key(), now, now + AUTHORITY_VALIDITY)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return _signed(builder, key, key)


def issue_serving(
    authority: KeyPair, *, names: Iterable[str], now: datetime, validity: timedelta
) -> KeyPair:
    """Return a new certificate for a server with these DNS names and IP addresses.

    The certificate expires with the authority at the latest.

    Raises:
        ConfigError: a name is not ASCII, or the authority is not usable.
    """
    issuer, issuer_key = issuer_of(authority)
    try:
        alternatives = [_alternative(name) for name in names]
    except ValueError as error:
        raise ConfigError(f"cannot issue a certificate: {error}") from error
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now + validity, issuer.not_valid_after_utc)
    if end <= now:
        raise ConfigError("cannot issue a certificate: the authority has expired")
    builder = (
        _builder(_name(SERVING_NAME), key.public_key(), now, end)
        .issuer_name(issuer.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    return _signed(builder, key, issuer_key)


def issuer_of(authority: KeyPair) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return the certificate that matches the key, and the key.

    `authority` can contain further certificates.

    Raises:
        ConfigError: the certificates or the key are unreadable, or none matches the key.
    """
    try:
        candidates = x509.load_pem_x509_certificates(authority.certificate)
        key = serialization.load_pem_private_key(authority.key, password=None)
        matching = [c for c in candidates if c.public_key() == key.public_key()]
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError("the authority's certificate or key is unreadable") from error
    if not matching or not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError("the authority's certificate and key do not match")
    return matching[0], key


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _signed(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
) -> KeyPair:
    return KeyPair(
        certificate=builder.sign(issuer_key, SHA256()).public_bytes(serialization.Encoding.PEM),
        key=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)

"""Certificates for the webhook: an authority of our own, and what it issues.

ECDSA on P-256, random serial numbers (RFC 5280, section 4.1.2.2), and all extensions that strict
verifiers ask for (section 4.2; Go, and Python from 3.13 on).  Pure but for the random numbers;
everything goes in and out as PEM.
"""

import base64
import binascii
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sharder.errors import ConfigError

AUTHORITY_VALIDITY = timedelta(days=3650)
SERVING_VALIDITY = timedelta(days=365)

BACKDATED = timedelta(hours=1)
"""How far clocks that verify may be behind the one that issues."""

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A certificate, or a chain with the own one first, and its private key; both PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateBundle:
    """What the sharder keeps in its Secret; all PEM.

    `ca` may hold several authorities while one takes over from another.
    """

    ca: bytes
    ca_key: bytes
    certificate: bytes
    key: bytes

    @property
    def authority(self) -> KeyPair:
        """Issues the serving certificate."""
        return KeyPair(certificate=self.ca, key=self.ca_key)

    @property
    def serving(self) -> KeyPair:
        """What the webhook shows."""
        return KeyPair(certificate=self.certificate, key=self.key)

    def to_secret_data(self) -> dict[str, str]:
        """Return the `data` of a Secret, base64 as on the wire."""
        return {
            "ca.crt": _base64(self.ca),
            "ca.key": _base64(self.ca_key),
            "tls.crt": _base64(self.certificate),
            "tls.key": _base64(self.key),
        }

    @classmethod
    def from_secret_data(cls, data: Mapping[str, str]) -> "CertificateBundle":
        """Read the `data` of a Secret; what is missing or no base64 is empty, see `problem`."""
        return cls(
            ca=_bytes(data.get("ca.crt", "")),
            ca_key=_bytes(data.get("ca.key", "")),
            certificate=_bytes(data.get("tls.crt", "")),
            key=_bytes(data.get("tls.key", "")),
        )


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """Return the names under which a Service is reached inside the cluster, shortest first."""
    qualified = f"{service}.{namespace}"
    return (service, qualified, f"{qualified}.svc", f"{qualified}.svc.cluster.local")


def make_authority(now: datetime, validity: timedelta = AUTHORITY_VALIDITY) -> KeyPair:
    """Return a new self-signed authority, good from `now` (aware) on."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("sharder webhook authority")
    builder = (
        _builder(name, key.public_key(), now, now + validity)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return _signed(builder, key, key)


def issue_serving(
    authority: KeyPair,
    *,
    dns_names: Iterable[str],
    ip_addresses: Iterable[IpAddress] = (),
    now: datetime,
    validity: timedelta = SERVING_VALIDITY,
) -> KeyPair:
    """Return a new certificate for a server with these names and addresses.

    It ends with the authority at the latest.

    Raises:
        ConfigError: a name is not ASCII, or the authority is not usable.
    """
    issuer, issuer_key = _issuer(authority)
    try:
        names = [x509.DNSName(name) for name in dns_names]
    except ValueError as error:
        raise ConfigError(f"no certificate can be issued: {error}") from error
    addresses = [x509.IPAddress(address) for address in ip_addresses]
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now + validity, issuer.not_valid_after_utc)
    builder = (
        _builder(_name("sharder webhook"), key.public_key(), now, end)
        .issuer_name(issuer.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([*names, *addresses]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    return _signed(builder, key, issuer_key)


def problem(bundle: CertificateBundle, names: Iterable[str], now: datetime) -> str | None:
    """Return why the bundle cannot serve `names` (DNS names, IP addresses) at `now`, or None."""
    try:
        authorities = x509.load_pem_x509_certificates(bundle.ca)
        issuer, _ = _issuer(bundle.authority)
    except (ValueError, ConfigError):
        return "the authority's certificate or key is missing, unreadable, or they do not match"
    if _time_problem(issuer, now):
        return f"the authority's certificate {_time_problem(issuer, now)}"
    fault = serving_problem(bundle.serving, names, now)
    if fault is not None:
        return fault
    certificate = x509.load_pem_x509_certificates(bundle.certificate)[0]
    if not any(_is_issued_by(certificate, authority) for authority in authorities):
        return "the serving certificate was not issued by the authority"
    return None


def serving_problem(pair: KeyPair, names: Iterable[str], now: datetime) -> str | None:
    """Return why the pair cannot serve `names` at `now`, whoever issued it, or None."""
    try:
        certificate = x509.load_pem_x509_certificates(pair.certificate)[0]
        key = serialization.load_pem_private_key(pair.key, password=None)
        is_pair = _is_pair(certificate, key)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "the serving certificate or its key is missing or unreadable"
    if not is_pair:
        return "the serving certificate and its key do not match"
    if _time_problem(certificate, now):
        return f"the serving certificate {_time_problem(certificate, now)}"
    missing = sorted(set(names) - _names_in(certificate))
    return f"the serving certificate does not name {', '.join(missing)}" if missing else None


def load_files(cert_dir: Path, cert_name: str, key_name: str) -> KeyPair:
    """Read a certificate and its key from files, as a Secret is mounted.

    Raises:
        ConfigError: a file cannot be read.
    """
    contents = []
    for path in (cert_dir / cert_name, cert_dir / key_name):
        try:
            contents.append(path.read_bytes())
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    return KeyPair(certificate=contents[0], key=contents[1])


def _issuer(authority: KeyPair) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return the authority that the key belongs to; there may be others beside it."""
    try:
        candidates = x509.load_pem_x509_certificates(authority.certificate)
        key = serialization.load_pem_private_key(authority.key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError("the authority's certificate or key is unreadable") from error
    for candidate in candidates:
        if isinstance(key, ec.EllipticCurvePrivateKey) and _is_pair(candidate, key):
            return candidate, key
    raise ConfigError("the authority's certificate and key do not match")


def _is_pair(certificate: x509.Certificate, key: PrivateKeyTypes) -> bool:
    return certificate.public_key() == key.public_key()


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


def _is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _time_problem(certificate: x509.Certificate, now: datetime) -> str:
    if now < certificate.not_valid_before_utc:
        return f"is not valid before {certificate.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ}"
    if now >= certificate.not_valid_after_utc:
        return f"expired at {certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"
    return ""


def _names_in(certificate: x509.Certificate) -> set[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return set()
    addresses = names.get_values_for_type(x509.IPAddress)
    return {*names.get_values_for_type(x509.DNSName), *(str(address) for address in addresses)}


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""

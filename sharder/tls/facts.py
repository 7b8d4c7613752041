"""The content of certificates as values, and the authorities that issued them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFacts:
    """The content of one certificate."""

    subject: str
    """As in RFC 4514: `CN=sharder webhook`."""
    names: tuple[str, ...]
    """DNS names and IP addresses; none for an authority."""
    not_before: datetime
    not_after: datetime
    fingerprint: str
    """SHA-256 as `openssl x509 -fingerprint -sha256` prints it."""
    pem: bytes = field(repr=False)


def facts_of(pem: bytes) -> tuple[CertificateFacts, ...]:
    """Return the content of all certificates in their order, each once.

    Empty if there are none, or if any of them cannot be read.
    """
    try:
        certificates = x509.load_pem_x509_certificates(pem)
        facts = {c.fingerprint(SHA256()): _facts(c) for c in certificates}
    except (ValueError, UnsupportedAlgorithm):
        return ()
    return tuple(facts.values())


def issued_by(
    certificate: bytes, authorities: Iterable[CertificateFacts]
) -> tuple[CertificateFacts, ...]:
    """Return the authorities that signed the first certificate of `certificate`.

    Raises:
        ValueError: `certificate` cannot be read.
    """
    own = x509.load_pem_x509_certificates(certificate)[0]
    return tuple(facts for facts in authorities if _is_issued_by(own, facts.pem))


def names_in(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return the certificate's DNS names, then its IP addresses."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    addresses = names.get_values_for_type(x509.IPAddress)
    return (*names.get_values_for_type(x509.DNSName), *(str(address) for address in addresses))


def _facts(certificate: x509.Certificate) -> CertificateFacts:
    return CertificateFacts(
        subject=certificate.subject.rfc4514_string(),
        names=names_in(certificate),
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        fingerprint=certificate.fingerprint(SHA256()).hex(":").upper(),
        pem=certificate.public_bytes(Encoding.PEM),
    )


def _is_issued_by(certificate: x509.Certificate, authority: bytes) -> bool:
    try:
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True

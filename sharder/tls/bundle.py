"""The content of the sharder's Secret, its problems, and the tokens that follow from it.

A token is in the webhook's path, so only the API server knows it.  It is derived from a private
key that all replicas share, and changes with this key.
"""

import base64
import binascii
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from sharder.core.errors import ConfigError
from sharder.tls.facts import facts_of, issued_by, names_in
from sharder.tls.issue import KeyPair, issuer_of

TOKEN_DIGITS: Final = 32
"""Hexadecimal digits, hence 128 bits; a segment of the path can have 63 characters."""

_IN_SECRET: Final = ("ca.crt", "ca.key", "tls.crt", "tls.key")
_NOTHING: Final = KeyPair(certificate=b"", key=b"")
_PURPOSE: Final = b"sharder: path of the admission webhook"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateBundle:
    """The authority that issues the serving certificate, and this certificate."""

    serving: KeyPair
    authority: KeyPair = _NOTHING
    """Empty if another program issues; 0.2.0 also wrote the certificate of the one before."""

    @property
    def token(self) -> str:
        """The token that follows from the key; without a key it is empty."""
        return token_of(self.authority.key or self.serving.key)

    def to_secret_data(self) -> dict[str, str]:
        """Return the `data` of a Secret, base64 as on the wire."""
        pairs = (self.authority, self.serving)
        parts = (part for pair in pairs for part in (pair.certificate, pair.key))
        return {
            name: base64.b64encode(part).decode()
            for name, part in zip(_IN_SECRET, parts, strict=True)
        }

    @classmethod
    def from_secret_data(cls, data: Mapping[str, str]) -> "CertificateBundle":
        """Read the `data` of a Secret; missing or malformed values are empty, see `problem`."""
        ca, ca_key, certificate, key = (_bytes(data.get(name, "")) for name in _IN_SECRET)
        authority = KeyPair(certificate=ca, key=ca_key)
        return cls(authority=authority, serving=KeyPair(certificate=certificate, key=key))


def problem(bundle: CertificateBundle, names: Iterable[str], now: datetime) -> str | None:
    """Return why the bundle cannot serve `names` (DNS names, IP addresses) at `now`, or None."""
    try:
        issuer, _ = issuer_of(bundle.authority)
    except ConfigError:
        return "the authority's certificate or key is missing or unreadable, or they do not match"
    if _time_problem(issuer, now):
        return f"the authority's certificate {_time_problem(issuer, now)}"
    fault = serving_problem(bundle.serving, names, now)
    if fault is not None:
        return fault
    if not issued_by(bundle.serving.certificate, facts_of(bundle.authority.certificate)):
        return "the serving certificate was not issued by the authority"
    return None


def serving_problem(pair: KeyPair, names: Iterable[str], now: datetime) -> str | None:
    """Return why the pair cannot serve `names` at `now`, or None; any issuer is accepted."""
    try:
        certificate = x509.load_pem_x509_certificates(pair.certificate)[0]
        key = serialization.load_pem_private_key(pair.key, password=None)
        is_pair = certificate.public_key() == key.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "the serving certificate or its key is missing or unreadable"
    if not is_pair:
        return "the serving certificate and its key do not match"
    if _time_problem(certificate, now):
        return f"the serving certificate {_time_problem(certificate, now)}"
    missing = sorted(set(names) - set(names_in(certificate)))
    return f"the serving certificate does not name {', '.join(missing)}" if missing else None


def token_of(key: bytes) -> str:
    """Return the token of a private key in PEM, empty without one."""
    return hmac.new(key, _PURPOSE, sha256).hexdigest()[:TOKEN_DIGITS] if key else ""


def is_one_of(given: str, tokens: Iterable[str]) -> bool:
    """Return whether `given` is one of the tokens, in constant time."""
    text = given.encode(errors="replace")
    return any(hmac.compare_digest(text, token.encode()) for token in tokens)


def _time_problem(certificate: x509.Certificate, now: datetime) -> str:
    if now < certificate.not_valid_before_utc:
        return f"is not valid before {certificate.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ}"
    if now >= certificate.not_valid_after_utc:
        return f"expired at {certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"
    return ""


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""

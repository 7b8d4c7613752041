"""The token in the webhook's path, which only the API server knows.

The token is derived from a private key that all replicas share, and changes with this key.
"""

import hmac
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from sharder.tls.bundle import CertificateBundle

_PURPOSE: Final = b"sharder: path of the admission webhook"

LENGTH: Final = 32
"""Hexadecimal digits, hence 128 bits; a segment of the path can have 63 characters."""


def token_of(key: bytes) -> str:
    """Return the token of a private key in PEM, empty without one."""
    return hmac.new(key, _PURPOSE, sha256).hexdigest()[:LENGTH] if key else ""


def tokens_of(bundle: CertificateBundle) -> tuple[str, ...]:
    """Return the tokens of the authorities with a key, the newest first.

    While one authority replaces another, both tokens are accepted.
    """
    return tuple(filter(None, (token_of(bundle.next_key), token_of(bundle.ca_key))))


def is_one_of(given: str, tokens: Iterable[str]) -> bool:
    """Return whether `given` is one of the tokens, in constant time."""
    text = given.encode(errors="replace")
    return any(hmac.compare_digest(text, token.encode()) for token in tokens)

"""What tells the API server's calls from those of others: a secret in the webhook's path.

It is derived from a private key that all replicas have, so that no two can disagree about it, and
changes with that key.
"""

import hmac
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from sharder.tls.bundle import CertificateBundle

_PURPOSE: Final = b"sharder: path of the admission webhook"

LENGTH: Final = 32
"""Hexadecimal digits, hence 128 bits; a segment of the path may have 63."""


def token_of(key: bytes) -> str:
    """Return the token of a private key in PEM, empty without one."""
    return hmac.new(key, _PURPOSE, sha256).hexdigest()[:LENGTH] if key else ""


def tokens_of(bundle: CertificateBundle) -> tuple[str, ...]:
    """Return the tokens of the authorities whose keys are there, the newest first.

    While one authority takes over from another both are good.
    """
    return tuple(filter(None, (token_of(bundle.next_key), token_of(bundle.ca_key))))


def is_one_of(given: str, tokens: Iterable[str]) -> bool:
    """Tell whether `given` is a token, in a time that does not tell how much of it is right."""
    text = given.encode(errors="replace")
    return any(hmac.compare_digest(text, token.encode()) for token in tokens)

"""Names for objects that come with a generateName instead of a name.

A mutating webhook may set the name, and has to: an object is placed by its name.
"""

from typing import Final

from xxhash import xxh64_intdigest

MAX_LENGTH: Final = 63
"""Of generated names, as in Kubernetes (apiserver v0.36.3, storage/names/generate.go)."""

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' own for generated names: no vowels, and nothing that looks like one."""

_DIGITS: Final = 10
"""Twice Kubernetes' own: the API server tries anew where its own name is taken, not ours."""

_FEW_DIGITS: Final = 5
_LONG_PREFIX: Final = 43
"""From this length on every character may be one too many: CronJobs have room for 52, Jobs with
an index for fewer than 63.  There a name is no longer than Kubernetes' own."""


def generated_name(prefix: str, uid: str) -> str:
    """Return the name for an object with `generateName: prefix`, the same for the same request.

    Args:
        prefix: Is cut where the name would get longer than `MAX_LENGTH`.
        uid: Of the admission request.
    """
    digits = _DIGITS if len(prefix) < _LONG_PREFIX else _FEW_DIGITS
    number, suffix = xxh64_intdigest(uid.encode()), ""
    for _ in range(digits):
        number, digit = divmod(number, len(_ALPHABET))
        suffix += _ALPHABET[digit]
    return prefix[: MAX_LENGTH - digits] + suffix

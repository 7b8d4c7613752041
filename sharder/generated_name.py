"""Names for objects that come with a generateName instead of a name.

A mutating webhook may set the name, and has to: an object is placed by its name.
"""

from typing import Final

from xxhash import xxh64_intdigest

MAX_LENGTH: Final = 63
"""Of generated names, as in Kubernetes (apiserver v0.36.3, storage/names/generate.go)."""

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' own for generated names: no vowels, and nothing that looks like one."""

_SUFFIX_LENGTH: Final = 10
_SHORTEST_SUFFIX: Final = 5
"""Kubernetes' own.  Ours is longer: the API server tries anew where its own name is taken."""

_SHORT_LIMIT: Final = 52
"""Of the names of CronJobs, the shortest in Kubernetes itself (batch/validation, v1.36)."""


def generated_name(prefix: str, uid: str) -> str:
    """Return the name for an object with `generateName: prefix`, the same for the same request.

    A name of Kubernetes' own that keeps to the limit of CronJobs does so here too.

    Args:
        prefix: Is cut where the name would get longer than `MAX_LENGTH`.
        uid: Of the admission request.
    """
    room = _SHORT_LIMIT - len(prefix)
    length = room if _SHORTEST_SUFFIX <= room < _SUFFIX_LENGTH else _SUFFIX_LENGTH
    number, suffix = xxh64_intdigest(uid.encode()), ""
    for _ in range(length):
        number, digit = divmod(number, len(_ALPHABET))
        suffix += _ALPHABET[digit]
    return prefix[: MAX_LENGTH - length] + suffix

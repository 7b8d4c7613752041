"""The key of an object: what its ring hashes.

`group/Kind/namespace/name`; no version, so that objects stay where they are when a resource gets
a new one, and no uid, which does not exist yet when an object is admitted (docs/protocol.md,
"Keys").

Names for objects that come with a generateName instead of a name.

A mutating webhook may set the name, and has to: an object is placed by its name.
"""

from typing import Final

from xxhash import xxh64_intdigest

from sharder.core.api.meta import OwnerReference, PartialObject


def main_key(obj: PartialObject) -> str:
    """Return the key of an object of a main resource; the namespace may be empty."""
    return _key(obj.group, obj.kind, obj.metadata.namespace, obj.metadata.name)


def owner_key(owner: OwnerReference, namespace: str) -> str:
    """Return the key of the object that `owner` points to, which lies in `namespace`."""
    return _key(owner.group, owner.kind, namespace, owner.name)


def namespace_key(key: str) -> str:
    """Return the key that all objects of one kind share in the namespace of the object `key`.

    For resources with `hashKey: Namespace`.  A name has no slash in it, nor has a namespace.
    """
    return key[: key.rindex("/") + 1]


def _key(group: str, kind: str, namespace: str, name: str) -> str:
    return f"{group}/{kind}/{namespace}/{name}"


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

"""The key of an object, which its ring hashes, and names for objects with generateName.

A key is `group/Kind/namespace/name`.  It has no version, so objects stay where they are when a
resource gets a new version, and no uid, which does not exist yet at admission (docs/protocol.md,
"Keys").

An object is placed by its name, so the mutating webhook sets the name of an object that has only
a generateName.
"""

from typing import Final

from xxhash import xxh64_intdigest

from sharder.core.api.meta import OwnerReference, PartialObject


def main_key(obj: PartialObject) -> str:
    """Return the key of an object of a main resource; the namespace can be empty."""
    return _key(obj.group, obj.kind, obj.metadata.namespace, obj.metadata.name)


def owner_key(owner: OwnerReference, namespace: str) -> str:
    """Return the key of the object in `namespace` that `owner` points to."""
    return _key(owner.group, owner.kind, namespace, owner.name)


def namespace_key(key: str) -> str:
    """Return the key that all objects of a kind share in the namespace of the object `key`.

    For resources with `hashKey: Namespace`.  Names and namespaces contain no slash.
    """
    return key[: key.rindex("/") + 1]


def _key(group: str, kind: str, namespace: str, name: str) -> str:
    return f"{group}/{kind}/{namespace}/{name}"


MAX_LENGTH: Final = 63
"""Of generated names, as in Kubernetes (apiserver v0.36.3, storage/names/generate.go)."""

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' own for generated names: no vowels, and nothing similar to one."""

_DIGITS: Final = 10
"""Twice Kubernetes' own: the API server retries when its own name is taken, but not ours."""

_FEW_DIGITS: Final = 5
_LONG_PREFIX: Final = 43
"""From this length on a name is no longer than Kubernetes' own, because some names must be short:
a CronJob's has at most 52 characters, and a Job's with an index fewer than 63."""


def generated_name(prefix: str, uid: str) -> str:
    """Return the name for an object with `generateName: prefix`, the same for the same request.

    Args:
        prefix: It is cut so that the name has at most `MAX_LENGTH` characters.
        uid: The uid of the admission request.
    """
    digits = _DIGITS if len(prefix) < _LONG_PREFIX else _FEW_DIGITS
    number, suffix = xxh64_intdigest(uid.encode()), ""
    for _ in range(digits):
        number, digit = divmod(number, len(_ALPHABET))
        suffix += _ALPHABET[digit]
    return prefix[: MAX_LENGTH - digits] + suffix

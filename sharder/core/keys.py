"""The key of an object, which its ring hashes, and names for objects with generateName.

A key is `group/Kind/namespace/name`.  It contains no version, so objects stay where they are when
a resource gets a new version.  It contains no uid, because an object has none yet at admission
(docs/protocol.md, "Keys").

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
    """Return the key that all objects of one kind in one namespace share; `key` is of any of them.

    It is for resources with `hashKey: Namespace`.  Names and namespaces contain no slash.
    """
    return key[: key.rindex("/") + 1]


def _key(group: str, kind: str, namespace: str, name: str) -> str:
    return f"{group}/{kind}/{namespace}/{name}"


MAX_LENGTH: Final = 63
"""Maximum characters of a generated name (apiserver v0.36.3, storage/names/generate.go)."""

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""As in Kubernetes: no vowels, and no digits that look like vowels."""

_DIGITS: Final = 10
"""Twice as many as in Kubernetes, because the API server does not retry if our name is taken."""

_FEW_DIGITS: Final = 5
_LONG_PREFIX: Final = 43
"""With a prefix of this length or more, a name is as short as one from Kubernetes, because some
names must be short: that of a CronJob has at most 52 characters, that of an indexed Job fewer
than 63."""


def generated_name(prefix: str, uid: str) -> str:
    """Return the name for an object with `generateName: prefix`, the same for the same request.

    Args:
        prefix: It is truncated so that the name has at most `MAX_LENGTH` characters.
        uid: The uid of the admission request.
    """
    digits = _DIGITS if len(prefix) < _LONG_PREFIX else _FEW_DIGITS
    number, suffix = xxh64_intdigest(uid.encode()), ""
    for _ in range(digits):
        number, digit = divmod(number, len(_ALPHABET))
        suffix += _ALPHABET[digit]
    return prefix[: MAX_LENGTH - digits] + suffix

"""The key of an object: what its ring hashes.

`group/Kind/namespace/name`; no version, so that objects stay where they are when a resource gets
a new one, and no uid, which does not exist yet when an object is admitted (docs/protocol.md,
"Keys").
"""

from sharder.api.meta import OwnerReference, PartialObject


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

"""The key of an object: what its ring hashes.

`group/Kind/namespace/name`; no version, so that objects stay where they are when a resource gets
a new one, and no uid, which does not exist yet when an object is admitted (docs/protocol.md,
"Keys").
"""

from sharder.api.meta import PartialObject


def main_key(obj: PartialObject) -> str:
    """Return the key of an object of a main resource; the namespace may be empty."""
    return _key(obj.group, obj.kind, obj.metadata.namespace, obj.metadata.name)


def controlled_key(obj: PartialObject) -> str | None:
    """Return the key of the object that controls `obj`, None if nothing does.

    The owner is looked for in the object's own namespace.
    """
    owner = obj.metadata.controller
    if owner is None:
        return None
    return _key(owner.group, owner.kind, obj.metadata.namespace, owner.name)


def _key(group: str, kind: str, namespace: str, name: str) -> str:
    return f"{group}/{kind}/{namespace}/{name}"

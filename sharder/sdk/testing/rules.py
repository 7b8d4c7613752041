"""How a write changes an object: pure functions over whole objects as JSON."""

from collections.abc import Mapping
from typing import Final

from sharder.core.api.meta import Json, Resource
from sharder.sdk.testing.requests import Refused
from sharder.sdk.testing.storage import Stored, Tree, finalizers_of, metadata_of

_WITH_GENERATION: Final = frozenset(
    {"admissionregistration.k8s.io", "apps", "batch", "networking.k8s.io", "policy"}
)
"""Built-in groups whose objects have a generation; all custom resources have one."""
_SET_BY_SERVER: Final = (
    "uid",
    "creationTimestamp",
    "name",
    "namespace",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def is_custom(resource: Resource) -> bool:
    """Return whether it is a custom resource: a write to its status changes no labels."""
    group = resource.id.group
    return "." in group and not group.endswith(".k8s.io")


def created(resource: Resource, body: Tree, *, uid: str, now: str) -> Tree:
    """Return the object that is stored for the body of a create; its name is set."""
    tree = {key: value for key, value in body.items() if key != "status"}
    metadata = tidy({**metadata_of(body), "uid": uid, "creationTimestamp": now})
    metadata.pop("deletionTimestamp", None)
    if _has_generation(resource):
        metadata["generation"] = 1
    return _stored(resource, {**tree, "metadata": metadata})


def updated(resource: Resource, current: Stored, wanted: Tree, subresource: str = "") -> Tree:
    """Return the object that is stored after an update or a patch.

    Raises:
        Refused: it is about another object, or adds a finalizer to a deleted one.
    """
    before, metadata = metadata_of(current.tree), tidy(metadata_of(wanted))
    if metadata.get("uid", before["uid"]) != before["uid"]:
        raise Refused(422, "metadata.uid: Invalid value: field is immutable")
    for key in (*_SET_BY_SERVER, "generation"):
        metadata.pop(key, None)
        if key in before:
            metadata[key] = before[key]
    if subresource == "status":
        kept = before if is_custom(resource) else metadata
        return {**current.tree, "metadata": kept, "status": wanted.get("status")}
    tree = {**wanted, "metadata": metadata}
    tree.pop("status", None)
    tree |= {"status": current.tree["status"]} if "status" in current.tree else {}
    added = set(finalizers_of(tree)) - set(finalizers_of(current.tree))
    if "deletionTimestamp" in before and added:
        raise Refused(422, "metadata.finalizers: no new finalizers can be added on deletion")
    if _has_generation(resource) and _content(tree) != _content(current.tree):
        metadata["generation"] = _next_generation(before)
    return _stored(resource, tree)


def marked_deleted(resource: Resource, current: Stored, now: str) -> Tree:
    """Return the stored object after the deletion of an object with finalizers."""
    marks: Tree = {"deletionTimestamp": now, "deletionGracePeriodSeconds": 0}
    metadata = {**metadata_of(current.tree), **marks}
    if _has_generation(resource):
        metadata["generation"] = _next_generation(metadata)
    return {**current.tree, "metadata": metadata}


def tidy(metadata: Tree) -> Tree:
    """Drop empty fields of metadata, as the API server does."""
    return {key: value for key, value in metadata.items() if value not in ({}, [], None, "")}


def merge(document: Json, patch: Json) -> Json:
    """Return the document with a merge patch (RFC 7386); None removes a field."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(document) if isinstance(document, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def _has_generation(resource: Resource) -> bool:
    """Return whether a change outside of metadata and status increases the generation."""
    return is_custom(resource) or resource.id.group in _WITH_GENERATION


def _next_generation(metadata: Tree) -> int:
    return int(str(metadata.get("generation", 0))) + 1


def _content(tree: Tree) -> Tree:
    return {key: value for key, value in tree.items() if key not in {"metadata", "status"}}


def _stored(resource: Resource, tree: Tree) -> Tree:
    """Drop data that is empty, as built-in resources do."""
    if is_custom(resource) or tree.get("data") not in ({}, None):
        return tree
    return {key: value for key, value in tree.items() if key != "data"}

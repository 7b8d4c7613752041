"""How a write changes an object: pure functions over whole objects as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules for the objects of one resource."""

    custom: bool
    """Whether it is a custom resource: a write to its status changes no labels."""
    generation: bool
    """Whether a change outside of metadata and status increases `metadata.generation`."""


def rules_of(resource: Resource) -> Rules:
    """Return the rules of a built-in or custom resource."""
    group = resource.id.group
    is_custom = "." in group and not group.endswith(".k8s.io")
    return Rules(custom=is_custom, generation=is_custom or group in _WITH_GENERATION)


def created(rules: Rules, body: Tree, *, uid: str, now: str) -> Tree:
    """Return the object that is stored for the body of a create; its name is set."""
    tree = {key: value for key, value in body.items() if key != "status"}
    metadata = tidy({**metadata_of(body), "uid": uid, "creationTimestamp": now})
    metadata.pop("deletionTimestamp", None)
    if rules.generation:
        metadata["generation"] = 1
    return _stored(rules, {**tree, "metadata": metadata})


def updated(rules: Rules, current: Stored, wanted: Tree, subresource: str = "") -> Tree:
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
        kept = before if rules.custom else metadata
        return {**current.tree, "metadata": kept, "status": wanted.get("status")}
    tree = {**wanted, "metadata": metadata}
    tree.pop("status", None)
    tree |= {"status": current.tree["status"]} if "status" in current.tree else {}
    added = set(finalizers_of(tree)) - set(finalizers_of(current.tree))
    if "deletionTimestamp" in before and added:
        raise Refused(422, "metadata.finalizers: no new finalizers can be added on deletion")
    if rules.generation and _content(tree) != _content(current.tree):
        metadata["generation"] = _next_generation(before)
    return _stored(rules, tree)


def marked_deleted(rules: Rules, current: Stored, now: str) -> Tree:
    """Return the stored object after the deletion of an object with finalizers."""
    marks: Tree = {"deletionTimestamp": now, "deletionGracePeriodSeconds": 0}
    metadata = {**metadata_of(current.tree), **marks}
    if rules.generation:
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


def _next_generation(metadata: Tree) -> int:
    return int(str(metadata.get("generation", 0))) + 1


def _content(tree: Tree) -> Tree:
    return {key: value for key, value in tree.items() if key not in {"metadata", "status"}}


def _stored(rules: Rules, tree: Tree) -> Tree:
    """Drop data that is empty, as built-in resources do."""
    if rules.custom or tree.get("data") not in ({}, None):
        return tree
    return {key: value for key, value in tree.items() if key != "data"}

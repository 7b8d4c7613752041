"""Rules of the API server: how a write changes an object, what a selector matches.  Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from sharder.core.api.meta import Json, ObjectMeta, PartialObject, Resource
from sharder.core.errors import Rejected

Tree: TypeAlias = dict[str, Json]
"""A whole object as JSON."""

_WITH_GENERATION: Final = frozenset(
    {"admissionregistration.k8s.io", "apps", "batch", "networking.k8s.io", "policy"}
)
"""Built-in groups whose objects have a generation; all custom resources have one."""


_COMMA = re.compile(r",(?![^(]*\))")
_SET = re.compile(r"(\S+)\s+(in|notin)\s*\(([^)]*)\)")
_EQUALITY = re.compile(r"([^\s=!]+)(?:\s*(==|=|!=)\s*(\S*))?")


def _at_the_start() -> str:
    return "2026-03-01T12:00:00Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules for the objects of one resource."""

    has_generation: bool = False
    """Whether a change outside of metadata and status increases `metadata.generation`."""
    has_status: bool = False
    """Whether only writes to the status subresource change the status."""
    now: Callable[[], str] = _at_the_start
    """The server's time, for timestamps."""

    def created(self, body: Json) -> Tree:
        """Return the object that the API server stores for the body of a creation."""
        tree = merged(body, {"metadata": {}})
        if self.has_status:
            tree.pop("status", None)
        return merged(tree, {"metadata": {"generation": 1}}) if self.has_generation else tree

    def updated(self, current: Tree, wanted: Tree) -> Tree:
        """Return the object that the API server stores after an update, not one of the status.

        Raises:
            Rejected: the update adds a finalizer to a deleted object.
        """
        if self.has_status:
            wanted = {key: value for key, value in wanted.items() if key != "status"}
            wanted |= {"status": current["status"]} if "status" in current else {}
        if meta_of(current).deletion_timestamp and set(finalizers(wanted)) - set(
            finalizers(current)
        ):
            raise Rejected(
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is "
                "being deleted"
            )
        is_same = _without_metadata(wanted) == _without_metadata(current)
        return wanted if is_same or not self.has_generation else self._raised(wanted)

    def deleted(self, current: Tree) -> Tree:
        """Return the stored object after the deletion of an object with finalizers."""
        tree = merged(current, {"metadata": {"deletionTimestamp": self.now()}})
        return self._raised(tree) if self.has_generation else tree

    @staticmethod
    def _raised(tree: Tree) -> Tree:
        return merged(tree, {"metadata": {"generation": meta_of(tree).generation + 1}})


def rules_of(resource: Resource, now: Callable[[], str]) -> Rules:
    """Return the rules of a built-in or custom resource."""
    group = resource.id.group
    is_custom = "." in group and not group.endswith(".k8s.io")
    return Rules(has_generation=is_custom or group in _WITH_GENERATION, has_status=True, now=now)


def as_tree(body: Mapping[str, object]) -> Tree:
    """Return a deep copy of the body, as the API server decodes it."""
    tree: Tree = msgspec.json.decode(msgspec.json.encode(body))
    return tree


def meta_of(tree: Tree) -> ObjectMeta:
    """Return the object's metadata."""
    return msgspec.convert(tree, PartialObject).metadata


def finalizers(tree: Tree) -> Sequence[str]:
    """Return the object's finalizers."""
    metadata = tree["metadata"]
    value = metadata.get("finalizers") if isinstance(metadata, Mapping) else None
    return [str(each) for each in value] if isinstance(value, Sequence) else ()


def owner_uids(tree: Tree) -> frozenset[str]:
    """Return the uids in the object's ownerReferences."""
    return frozenset(owner.uid for owner in meta_of(tree).owner_references or ())


def merged(target: Json, patch: Json) -> Tree:
    """Apply a merge patch to an object; drop empty fields of metadata, as the API server does."""
    result = apply_merge_patch(target, patch)
    metadata = result.get("metadata") if isinstance(result, Mapping) else None
    if not isinstance(result, Mapping) or not isinstance(metadata, Mapping):
        raise Rejected("an object needs metadata")
    kept = {key: value for key, value in metadata.items() if value not in ({}, [])}
    return {**result, "metadata": kept}


def _without_metadata(tree: Tree) -> Tree:
    return {key: value for key, value in tree.items() if key not in {"metadata", "status"}}


def apply_merge_patch(document: Json, patch: Json) -> Json:
    """Return the document with `patch` merged into it; None removes a field."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(document) if isinstance(document, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_merge_patch(merged.get(key), value)
    return merged


def matches(selector: str, labels: Mapping[str, str]) -> bool:
    """Return whether the labels match the label selector, which is in its text form."""
    return all(_holds(part.strip(), labels) for part in _COMMA.split(selector) if part.strip())


def _holds(requirement: str, labels: Mapping[str, str]) -> bool:
    if requirement.startswith("!"):
        return requirement[1:].strip() not in labels
    if match := _SET.fullmatch(requirement):
        key, operator, values = match.groups()
        inside = labels.get(key) in {value.strip() for value in values.split(",")}
        return inside is (operator == "in")
    key, operator, value = _EQUALITY.fullmatch(requirement).groups()  # type: ignore[union-attr]
    if not operator:
        return key in labels
    return (labels.get(key) == value) is (operator != "!=")

"""How a write changes an object: pure functions over whole objects as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sharder.core.api.meta import Json, Resource
from sharder.sdk.testing.requests import Refused
from sharder.sdk.testing.storage import Stored, Tree

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
_KEYED: Final = {"webhooks": "name", "conditions": "type", "ownerReferences": "uid"}
"""Lists that server-side apply merges by a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules for the objects of one resource."""

    custom: bool
    """Whether it is a custom resource: a write to its status changes no labels."""
    generation: bool
    """Whether a change outside of metadata and status increases `metadata.generation`."""
    status: bool = True
    """Whether only writes to the status subresource change the status."""


def rules_of(resource: Resource) -> Rules:
    """Return the rules of a built-in or custom resource."""
    group = resource.id.group
    is_custom = "." in group and not group.endswith(".k8s.io")
    return Rules(custom=is_custom, generation=is_custom or group in _WITH_GENERATION)


def created(rules: Rules, body: Tree, *, uid: str, now: str) -> Tree:
    """Return the object that is stored for the body of a create; its name is set."""
    tree = {key: value for key, value in body.items() if key != "status" or not rules.status}
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
    for key in _SET_BY_SERVER:
        metadata.pop(key, None)
    metadata = {**{key: before[key] for key in _SET_BY_SERVER if key in before}, **metadata}
    metadata.pop("generation", None)
    if "generation" in before:
        metadata["generation"] = before["generation"]
    if subresource == "status":
        kept = before if rules.custom else metadata
        return {**current.tree, "metadata": kept, "status": wanted.get("status")}
    tree = {**wanted, "metadata": metadata}
    if rules.status:
        tree.pop("status", None)
        tree |= {"status": current.tree["status"]} if "status" in current.tree else {}
    if "deletionTimestamp" in before and set(finalizers_of(tree)) - set(current.finalizers):
        raise Refused(422, "metadata.finalizers: no new finalizers can be added on deletion")
    if rules.generation and _content(tree) != _content(current.tree):
        metadata["generation"] = int(str(before.get("generation", 0))) + 1
    return _stored(rules, tree)


def _stored(rules: Rules, tree: Tree) -> Tree:
    """Drop data that is empty, as built-in resources do."""
    if rules.custom or tree.get("data") not in ({}, None):
        return tree
    return {key: value for key, value in tree.items() if key != "data"}


def marked_deleted(rules: Rules, current: Stored, now: str) -> Tree:
    """Return the stored object after the deletion of an object with finalizers."""
    marks: Tree = {"deletionTimestamp": now, "deletionGracePeriodSeconds": 0}
    metadata = {**metadata_of(current.tree), **marks}
    if rules.generation:
        metadata["generation"] = int(str(metadata.get("generation", 0))) + 1
    return {**current.tree, "metadata": metadata}


def metadata_of(tree: Tree) -> Tree:
    """Return the object's metadata, empty if it has none."""
    metadata = tree.get("metadata")
    return dict(metadata) if isinstance(metadata, Mapping) else {}


def finalizers_of(tree: Tree) -> Sequence[str]:
    """Return the object's finalizers."""
    value = metadata_of(tree).get("finalizers")
    return [str(each) for each in value] if isinstance(value, list) else ()


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
        elif isinstance(value, Mapping):
            merged[key] = merge(merged.get(key), value)
        else:
            merged[key] = value
    return merged


def json_patch(document: Tree, operations: Sequence[Mapping[str, Json]]) -> Tree:
    """Return the document with a JSON patch (RFC 6902): add, replace, remove and test on objects.

    Raises:
        Refused: an operation cannot be applied, so the whole request is rejected.
    """
    result = _copied(document)
    for operation in operations:
        *parents, last = [_unescaped(part) for part in str(operation["path"])[1:].split("/")]
        node: Json = result
        for part in parents:
            node = node.get(part) if isinstance(node, Mapping) else None
        if not isinstance(node, dict):
            raise Refused(500, f"the patch does not apply at {operation['path']}")
        kind = operation["op"]
        if kind in {"remove", "replace", "test"} and last not in node:
            raise Refused(500, f"the patch does not apply at {operation['path']}")
        if kind == "remove":
            del node[last]
        elif kind == "test" and node[last] != operation.get("value"):
            raise Refused(422, f"the test of {operation['path']} fails")
        elif kind in {"add", "replace"}:
            node[last] = operation.get("value")
    return result


def applied(current: Tree | None, body: Tree, before: Tree | None) -> Tree:
    """Return the object after a server-side apply; `before` is what this manager applied last."""
    base = {} if current is None else current
    if before is not None:
        base = _without(base, before, body)
    return _merged_by_key(base, body)


def _without(document: Tree, old: Tree, new: Tree) -> Tree:
    """Remove the fields of `old` that `new` does not have."""
    result = dict(document)
    for key, value in old.items():
        if key not in new:
            result.pop(key, None)
            continue
        there, now = result.get(key), new[key]
        if isinstance(value, dict) and isinstance(there, dict) and isinstance(now, dict):
            result[key] = _without(there, value, now)
        elif key in _KEYED and isinstance(there, list):
            result[key] = _list_without(there, _by_key(value, key), _by_key(now, key), _KEYED[key])
    return result


def _list_without(
    there: list[Json], old: Mapping[Json, Tree], new: Mapping[Json, Tree], name: str
) -> list[Json]:
    kept: list[Json] = []
    for each in there:
        of = each.get(name) if isinstance(each, dict) else None
        if isinstance(each, dict) and of in old and of in new:
            kept.append(_without(each, old[of], new[of]))
        elif of not in old:
            kept.append(each)
    return kept


def _by_key(entries: Json, key: str) -> dict[Json, Tree]:
    listed = entries if isinstance(entries, list) else []
    return {each[_KEYED[key]]: each for each in listed if isinstance(each, dict)}


def _merged_by_key(document: Tree, body: Tree) -> Tree:
    result = dict(document)
    for key, value in body.items():
        there = result.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            result[key] = _merged_by_key(there, value)
        elif key in _KEYED and isinstance(value, list) and isinstance(there, list):
            result[key] = _merged_list(there, value, _KEYED[key])
        else:
            result[key] = value
    return result


def _merged_list(there: list[Json], wanted: list[Json], name: str) -> list[Json]:
    ours = {each[name]: each for each in wanted if isinstance(each, dict)}
    known = {each[name]: each for each in there if isinstance(each, dict)}
    merged: list[Json] = [_merged_by_key(each, ours.get(of, {})) for of, each in known.items()]
    return merged + [each for of, each in ours.items() if of not in known]


def _content(tree: Tree) -> Tree:
    return {key: value for key, value in tree.items() if key not in {"metadata", "status"}}


def _copied(tree: Mapping[str, Json]) -> Tree:
    return {
        key: _copied(each) if isinstance(each, Mapping) else each for key, each in tree.items()
    }


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")

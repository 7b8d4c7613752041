"""JSON patches (RFC 6902) and merge patches (RFC 7386), applied as the API server does.

Only what the sharder may send: `add` and `remove` of members of objects, strict in that both fail
where the RFC says so.
"""

from collections.abc import Mapping, Sequence

import msgspec

from sharder.core.api.meta import Json, PartialObject
from sharder.core.movement.patches import Operation
from sharder.sdk.testing.rules import merge


class PatchError(Exception):
    """An operation has no target: the API server would refuse the user's request."""


def apply_json_patch(document: Json, operations: Sequence[Operation]) -> Json:
    """Return the document after all operations.

    Raises:
        PatchError: a parent is missing, or `remove` finds nothing.
    """
    for operation in operations:
        # RFC 6901, section 4
        path = [x.replace("~1", "/").replace("~0", "~") for x in operation.path.split("/")[1:]]
        value: Json = msgspec.to_builtins(operation.value)
        document = _changed(document, path, operation.op, value)
    return document


def admitted(obj: PartialObject, operations: Sequence[Operation]) -> PartialObject:
    """Return the object as it is stored after the webhook has answered with `operations`."""
    return _decode(apply_json_patch(_encode(obj), operations))


def written(obj: PartialObject, patch: Json) -> PartialObject:
    """Return the object after a write with the merge patch."""
    return _decode(merge(_encode(obj), patch))


def _changed(node: Json, path: Sequence[str], op: str, value: Json) -> Json:
    if not isinstance(node, Mapping):
        raise PatchError(f"no object to hold {path[0]!r}")
    key, *rest = path
    if op == "add" and not rest:
        return {**node, key: value}
    if key not in node:
        raise PatchError(f"nothing at {key!r}")
    if rest:
        return {**node, key: _changed(node[key], rest, op, value)}
    return {k: v for k, v in node.items() if k != key}


def _encode(obj: PartialObject) -> Json:
    encoded: Json = msgspec.json.decode(msgspec.json.encode(obj))
    return encoded


def _decode(document: Json) -> PartialObject:
    return msgspec.json.decode(msgspec.json.encode(document), type=PartialObject)

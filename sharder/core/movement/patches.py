"""Every change of an object, as data.

Merge patches (RFC 7386) are for our own writes.  Each contains the resourceVersion of the object
that was read, so that a lost race is a conflict and not a lost update.  JSON patches (RFC 6902)
are for admission.  No module but this one and `step_patch` builds a patch of an object.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

import msgspec

from sharder.core.api.meta import Json, ObjectMeta
from sharder.core.names import is_label_value


class Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation of a JSON patch; `value` is absent for `remove`."""

    op: Literal["add", "remove"]
    path: str
    value: str | dict[str, str] | None = None


def acknowledge(meta: ObjectMeta, *, owner_label: str, drain_label: str) -> Json:
    """Return the merge patch of a shard that acknowledges a drain; it removes both labels."""
    return guarded(meta, labels={owner_label: None, drain_label: None})


def forget(meta: ObjectMeta, *, owner: str, drain: str, direction: str) -> Json:
    """Return the merge patch that removes a ring's two labels and its annotation, by key."""
    return guarded(meta, labels={owner: None, drain: None}, annotations={direction: None})


def admission(
    meta: ObjectMeta,
    *,
    labels: Mapping[str, str | None],
    annotations: Mapping[str, str | None] | None = None,
    name: str = "",
) -> tuple[Operation, ...]:
    """Return the JSON patch that gives the object these labels and annotations.

    The value None removes a label or annotation.  Values that are already right get no operation,
    because an operation that cannot be applied would reject the user's request.  `name` is for
    objects without a name.

    Raises:
        ValueError: A label value is invalid, so the API server would reject the object.
    """
    for value in labels.values():
        if value and not is_label_value(value):
            raise ValueError(f"{value!r} cannot stand in a label")
    operations: list[Operation] = []  # A call of `list[Operation]` would take a microsecond.
    if name and name != meta.name:
        operations.append(Operation(op="add", path="/metadata/name", value=name))
    operations += _map_operations("/metadata/labels", meta.labels, labels)
    if annotations:
        operations += _map_operations("/metadata/annotations", meta.annotations, annotations)
    return tuple(operations)


def _map_operations(
    path: str, present: Mapping[str, str] | None, wanted: Mapping[str, str | None]
) -> list[Operation]:
    operations: list[Operation] = []
    current = {} if present is None else present
    for key, value in wanted.items():
        if current.get(key) == value:
            continue
        if present is None and not operations:
            operations.append(Operation(op="add", path=path, value={}))
        operations.append(
            Operation(op="remove", path=_pointer(path, key))
            if value is None
            else Operation(op="add", path=_pointer(path, key), value=value)
        )
    return operations


@lru_cache(maxsize=4096)
def _pointer(path: str, key: str) -> str:
    """Return the JSON pointer to an entry of a map (RFC 6901, section 3)."""
    return f"{path}/{key.replace('~', '~0').replace('/', '~1')}"


def guarded(
    meta: ObjectMeta,
    *,
    labels: Mapping[str, str | None],
    annotations: Mapping[str, str | None] | None = None,
) -> Json:
    """Return the merge patch of the object that was read."""
    body: dict[str, Json] = {"resourceVersion": meta.resource_version, "labels": labels}
    there = meta.annotations or {}
    present = {k: v for k, v in (annotations or {}).items() if v is not None or k in there}
    if present:
        body["annotations"] = present
    return {"metadata": body}

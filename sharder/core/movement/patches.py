"""Every change of an object, as data.

Merge patches (RFC 7386) are for our own writes.  Each contains the resourceVersion of the object
that was read, so that a lost race is a conflict and not a lost update.  JSON patches (RFC 6902)
are for admission.  No other module builds a patch of an object.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

import msgspec

from sharder.core.api.meta import Json, ObjectMeta, PartialObject
from sharder.core.movement.step import Assign, Disown, Drain, Keep, Send, Step, Withdraw
from sharder.core.names import ShardName, is_label_value
from sharder.core.ring.snapshot import RingSnapshot


class Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation of a JSON patch; `value` is absent for `remove`."""

    op: Literal["add", "remove"]
    path: str
    value: str | dict[str, str] | None = None


def patch_of(snapshot: RingSnapshot, obj: PartialObject, step: Step) -> Json | None:
    """Return the merge patch for a step, None for a step without a write.

    All but a drain end any drain.

    Raises:
        ValueError: The shard is not a label value, so the API server would reject the object.
    """
    owner, drain, following = snapshot.owner_label, snapshot.drain_label, None
    labels: dict[str, str | None] = {owner: None, drain: None}
    match step:
        case Assign(shard):
            if not is_label_value(shard):
                raise ValueError(f"{shard!r} cannot stand in a label")
            labels = {owner: shard, drain: None}
        case Drain(_, to):
            labels, following = {drain: "true"}, _next_of(snapshot, obj, to)
        case Withdraw():
            labels = {drain: None}
        case Send(shard):
            following = shard
        case Disown():
            pass
        case Keep():  # pragma: no branch: there is no other step, as mypy checks
            return None
    return _guarded(obj.metadata, labels=labels, annotations={snapshot.next_annotation: following})


def _next_of(snapshot: RingSnapshot, obj: PartialObject, to: ShardName | None) -> str:
    """Return the `next` of a drain, which shows that the object was released on purpose.

    An existing one is replaced: it is old or from another client, and would send the object
    elsewhere.  It names a shard where somebody depends on it, otherwise it is empty, and the place
    is decided at the write: with a strategy that follows only for objects with controlled objects,
    since all replicas have to agree where these go, and for pinned objects, which would count as
    new after their release and wait for a cordoned shard.
    """
    is_pinned = obj.metadata.has_label(snapshot.pin_label)
    is_needed = snapshot.placer.sticks or is_pinned or snapshot.leads(obj)
    return (to if is_needed else None) or ""


def acknowledge(meta: ObjectMeta, *, owner_label: str, drain_label: str) -> Json:
    """Return the merge patch of a shard that acknowledges a drain; it removes both labels."""
    return _guarded(meta, labels={owner_label: None, drain_label: None})


def forget(meta: ObjectMeta, *, owner: str, drain: str, direction: str) -> Json:
    """Return the merge patch that removes a ring's two labels and its annotation, by key."""
    return _guarded(meta, labels={owner: None, drain: None}, annotations={direction: None})


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


def _guarded(
    meta: ObjectMeta,
    *,
    labels: Mapping[str, str | None],
    annotations: Mapping[str, str | None] | None = None,
) -> Json:
    body: dict[str, Json] = {"resourceVersion": meta.resource_version, "labels": labels}
    there = meta.annotations or {}
    present = {k: v for k, v in (annotations or {}).items() if v is not None or k in there}
    if present:
        body["annotations"] = present
    return {"metadata": body}

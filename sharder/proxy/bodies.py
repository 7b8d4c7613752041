"""What a request sends, as JSON or in Kubernetes' protobuf: owner, options, Lease.  Pure.

Every object of the API has its ObjectMeta in field 1, inside an envelope (apimachinery,
pkg/runtime/serializer/protobuf/doc.go, and pkg/apis/meta/v1/generated.proto).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from sharder.core.api.lease import Lease, LeaseSpec
from sharder.core.api.meta import ObjectMeta, OwnerReference
from sharder.core.errors import InvalidObject

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_AS_JSON: Final = frozenset(
    f"application/{kind}"
    for kind in ("json", "apply-patch+yaml", "merge-patch+json", "strategic-merge-patch+json")
)
_MAGIC: Final = b"k8s\x00"
_BROKEN: Final = (msgspec.DecodeError, IndexError, UnicodeDecodeError, RecursionError)


_Fields: TypeAlias = defaultdict[int, list[bytes]]


class _Owned(msgspec.Struct, frozen=True):
    owner_references: list[OwnerReference] | None = msgspec.field(
        default=None, name="ownerReferences"
    )


class _Object(msgspec.Struct, frozen=True):
    metadata: _Owned | None = None


_DECODER: Final = msgspec.json.Decoder(_Object)


class _Options(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The options of a deletion that parameters can give."""

    grace_period_seconds: int | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    dry_run: Sequence[str] = ()


def owner_in(body: bytes, content_type: str) -> OwnerReference | None:
    """Return what controls the object in a body, which is whole or a merge patch.

    Raises:
        InvalidObject: it is neither JSON nor protobuf, or broken.
    """
    kind = _kind(content_type)
    try:
        if kind == PROTOBUF:
            owners = [_owner(raw) for raw in _parsed(_joined(_parsed(_object_in(body)), 1))[13]]
        elif kind in {"", *_AS_JSON}:
            owners = (_DECODER.decode(body).metadata or _Owned()).owner_references or []
        else:
            raise InvalidObject(f"cannot read an object that is sent as {kind}")
    except _BROKEN as error:
        raise InvalidObject(f"cannot read the object of the request: {error}") from error
    return next((owner for owner in owners if owner.controller), None)


def labelled(body: bytes, content_type: str, key: str, value: str) -> bytes:
    """Return a body that `owner_in` can read, with a label more."""
    if _kind(content_type) == PROTOBUF:
        entry = _field(1, key.encode()) + _field(2, value.encode())
        return _merged(body, after=_field(1, _field(11, entry)))
    tree = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    metadata = msgspec.json.decode(tree.get("metadata", b"{}"), type=dict[str, Any])
    metadata["labels"] = {**(metadata.get("labels") or {}), key: value}
    return msgspec.json.encode({**tree, "metadata": metadata})


def deletion_of(
    uid: str, body: bytes, content_type: str, query: Mapping[str, str]
) -> tuple[bytes, str]:
    """Return the DeleteOptions of a request for one object only, and their content type.

    Without a body, parameters are options (apiserver, pkg/endpoints/handlers/delete.go).  A uid
    in the given options counts.

    Raises:
        InvalidObject: they are neither JSON nor protobuf, or broken.
    """
    try:
        if not body:
            asked = {**query, "dryRun": [query["dryRun"]] if "dryRun" in query else []}
            body = msgspec.json.encode(msgspec.convert(asked, _Options, strict=False))
            content_type = ""
        if _kind(content_type) == PROTOBUF:
            return _merged(body, before=_field(2, _field(1, uid.encode()))), content_type
        tree = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        given = msgspec.json.decode(tree.get("preconditions", b"{}"), type=dict[str, Any] | None)
    except _BROKEN as error:
        raise InvalidObject(f"cannot read the options of the deletion: {error}") from error
    given = given or {}
    only_this = {"preconditions": {**given, "uid": given.get("uid") or uid}}
    return msgspec.json.encode({**tree, **only_this}), "application/json"


def _kind(content_type: str) -> str:
    return content_type.partition(";")[0].strip()


def _merged(body: bytes, before: bytes = b"", after: bytes = b"") -> bytes:
    """Return an envelope whose last object counts: the same between more fields.

    Messages that come twice are merged, and of values the last one counts.
    """
    return body + _field(2, before + _object_in(body) + after)


def _field(number: int, value: bytes) -> bytes:
    length, size = bytearray(), len(value)
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2, *length, size]) + value


def lease_in(body: bytes, content_type: str) -> Lease:
    """Return the Lease in a body, in protobuf only name, holder and duration; empty if none."""
    try:
        if _kind(content_type) != PROTOBUF:
            return msgspec.json.decode(body, type=Lease)
        fields = _parsed(_object_in(body))
        meta, spec = _parsed(_joined(fields, 1)), _parsed(_joined(fields, 2))
        return Lease(
            metadata=ObjectMeta(name=_text(meta, 1)),
            spec=LeaseSpec(
                holder_identity=_text(spec, 1),
                lease_duration_seconds=int.from_bytes(_last(spec, 2), "little"),
            ),
        )
    except (*_BROKEN, InvalidObject):
        return Lease(metadata=ObjectMeta())


def _object_in(body: bytes) -> bytes:
    """Return the object in the envelope."""
    if not body.startswith(_MAGIC):
        raise InvalidObject("the protobuf of the request has no envelope")
    return _last(_parsed(body[len(_MAGIC) :]), 2)


def _owner(raw: bytes) -> OwnerReference:
    fields = _parsed(raw)
    return OwnerReference(
        api_version=_text(fields, 5),
        kind=_text(fields, 1),
        name=_text(fields, 3),
        uid=_text(fields, 4),
        controller=any(_last(fields, 6)),
    )


def _text(fields: _Fields, number: int) -> str:
    return _last(fields, number).decode()


def _last(fields: _Fields, number: int) -> bytes:
    """Return the value of a field; the last one counts."""
    return fields[number][-1] if fields[number] else b""


def _joined(fields: _Fields, number: int) -> bytes:
    """Return the message in a field; it can come in parts."""
    return b"".join(fields[number])


def _parsed(message: bytes) -> _Fields:
    """Return the values of each field of a message that is a number or bytes."""
    fields: _Fields = defaultdict(list)
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        match key & 7:
            case 0:
                number, at = _varint(message, at)
                fields[key >> 3].append((number & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little"))
            case 1:
                at += 8
            case 2:
                length, at = _varint(message, at)
                fields[key >> 3].append(message[at : at + length])
                at += length
            case 5:
                at += 4
            case other:
                raise InvalidObject(f"cannot read the protobuf of the request: wire type {other}")
    if at > len(message):
        raise IndexError("it ends in the middle of a field")
    return fields


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise IndexError("a number is too long")

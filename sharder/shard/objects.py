"""Objects as a shard sees them: their metadata, or all of them as JSON.  Pure."""

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from sys import intern
from typing import Final, TypeAlias, TypeVar

import msgspec

from sharder.core.api.meta import Json, ObjectMeta, PartialObject, Resource
from sharder.core.errors import InvalidObject

Body: TypeAlias = Mapping[str, Json]
"""The fields of an object that a request sends."""

Document: TypeAlias = dict[str, Json]
"""A whole object as JSON."""

T = TypeVar("T")


class OwnMeta(ObjectMeta, frozen=True, kw_only=True, rename="camel"):
    """The metadata of an object that a `Request` shows; absent fields are empty."""

    finalizers: tuple[str, ...] = ()

    def has_finalizer(self, name: str) -> bool:
        """Return whether the object has the finalizer."""
        return name in self.finalizers


class OwnObject(PartialObject, frozen=True, kw_only=True, rename="camel"):
    """An object of any kind, with its type and `OwnMeta` only."""

    metadata: OwnMeta = OwnMeta()


Decode: TypeAlias = Callable[[bytes | msgspec.Raw], OwnObject]

own: Final[Decode] = msgspec.json.Decoder(OwnObject).decode


def bare(raw: bytes | msgspec.Raw, *, labels: Collection[str]) -> OwnObject:
    """Decode only which object it is, its version, and these of its labels: lists are long."""
    meta = own(raw).metadata
    kept = _shared(*((key, meta.label(key)) for key in labels if meta.has_label(key)))
    name, at, version = meta.name, intern(meta.namespace), meta.resource_version
    found = OwnMeta(name=name, namespace=at, uid=meta.uid, resource_version=version, labels=kept)
    return OwnObject(metadata=found)


@lru_cache(maxsize=8)
def _shared(*labels: tuple[str, str]) -> dict[str, str]:
    """Return these labels, in one object for all that have them."""
    return dict(labels)


def is_controlled(meta: ObjectMeta, uid: str) -> bool:
    """Return whether the object with this uid is the controller of an object."""
    return meta.controller is not None and meta.controller.uid == uid


def document(raw: msgspec.Raw) -> Document:
    """Decode the object as JSON."""
    whole: Document = msgspec.json.decode(raw)
    return whole


def decode(raw: msgspec.Raw, shape: type[T]) -> T:
    """Decode the object as `shape`; `InvalidObject` if it does not have this shape."""
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.ValidationError as error:
        raise InvalidObject(f"the object does not have the expected shape: {error}") from error


def guarded(body: Body, meta: ObjectMeta) -> Body:
    """Return the patch with the resourceVersion of `meta`: any other state is a `Conflict`."""
    metadata = body.get("metadata")
    fields = metadata if isinstance(metadata, Mapping) else {}
    return {**body, "metadata": {**fields, "resourceVersion": meta.resource_version}}


class Whole(OwnObject, frozen=True, kw_only=True):
    """An object: its metadata decoded, and all of it as JSON without `managedFields`."""

    raw: bytes = b""


_ENCODER = msgspec.json.Encoder()
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_META = msgspec.json.Decoder(OwnMeta)


def whole(raw: bytes | msgspec.Raw, *, resource: Resource) -> Whole:
    """Decode an object of a list or a watch; items of lists lack `apiVersion` and `kind`.

    Raises:
        msgspec.DecodeError: `raw` is not a Kubernetes object.
    """
    fields = _FIELDS.decode(raw)
    metadata = _FIELDS.decode(fields.get("metadata", b"{}"))
    metadata.pop("managedFields", None)
    encoded = msgspec.json.encode(metadata)
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    typed = {**kind, **fields, "metadata": msgspec.Raw(encoded)}
    buffer = bytearray()
    _ENCODER.encode_into(typed, buffer)
    return Whole(
        api_version=resource.api_version,
        kind=resource.kind,
        metadata=_META.decode(encoded),
        raw=bytes(buffer),  # a copy without the spare memory of the buffer
    )

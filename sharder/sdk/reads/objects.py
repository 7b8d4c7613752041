"""Objects as a shard sees them: their metadata, or all of them as JSON.  Pure."""

from collections.abc import Mapping
from typing import TypeAlias, TypeVar

import msgspec

from sharder.core.api.meta import Json, ObjectMeta, PartialObject
from sharder.core.errors import InvalidObject

Body: TypeAlias = Mapping[str, Json]
"""What is sent of an object."""

Document: TypeAlias = dict[str, Json]
"""A whole object as JSON."""

T = TypeVar("T")


class OwnMeta(ObjectMeta, frozen=True, kw_only=True, rename="camel"):
    """The metadata that a request shows; absent fields are empty."""

    finalizers: list[str] | None = None

    def has_finalizer(self, name: str) -> bool:
        """Return whether the object has the finalizer."""
        return name in (self.finalizers or ())


class OwnObject(PartialObject, frozen=True, kw_only=True, rename="camel"):
    """An object of any kind with its type and that metadata only."""

    metadata: OwnMeta = OwnMeta()


def document(raw: msgspec.Raw) -> Document:
    """Return the object."""
    whole: Document = msgspec.json.decode(raw)
    return whole


def decode(raw: msgspec.Raw, shape: type[T]) -> T:
    """Return the object in this shape; `InvalidObject` if it does not have it."""
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.ValidationError as error:
        raise InvalidObject(f"the object does not have the expected shape: {error}") from error


def guarded(body: Body, meta: ObjectMeta) -> Body:
    """Return the patch for exactly the state of the object that `meta` is from."""
    metadata = body.get("metadata")
    fields = metadata if isinstance(metadata, Mapping) else {}
    return {**body, "metadata": {**fields, "resourceVersion": meta.resource_version}}

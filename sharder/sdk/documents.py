"""Whole objects as JSON: decoded, and patches for them.  Pure."""

from collections.abc import Mapping
from typing import TypeAlias, TypeVar

import msgspec

from sharder.core.api.meta import Json, ObjectMeta
from sharder.core.errors import InvalidObject
from sharder.sdk.children import Body

Document: TypeAlias = dict[str, Json]
"""A whole object as JSON."""

T = TypeVar("T")


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

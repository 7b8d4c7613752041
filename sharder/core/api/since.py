"""Since when an object is in its state, as far as a single read shows it.

The API server notes for each client when it last changed an object, and which fields it set.  So a
label is there at least since the last write of the client that set it.  A label that was removed
leaves no trace: an object without an owner waits at most since it was created.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from sharder.core.api.lease import parse_time
from sharder.core.api.meta import ObjectMeta, PartialObject

_UNITS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


class _Metadata(msgspec.Struct, frozen=True):
    labels: dict[str, object] = msgspec.field(default_factory=dict, name="f:labels")


class _Set(msgspec.Struct, frozen=True):
    metadata: _Metadata = msgspec.field(default=_Metadata(), name="f:metadata")


class _Fields(msgspec.Struct, frozen=True):
    manager: str = ""
    time: str | None = None
    fields: _Set = msgspec.field(default=_Set(), name="fieldsV1")


class DatedMeta(ObjectMeta, frozen=True, kw_only=True, rename="camel"):
    """Metadata with the writes of each client."""

    managed_fields: tuple[_Fields, ...] = ()


class DatedObject(PartialObject, frozen=True, kw_only=True, rename="camel"):
    """An object with the writes of each client."""

    metadata: DatedMeta = DatedMeta()


class Bound(StrEnum):
    """What a time says of the age of a state."""

    AT_LEAST = "at least"
    AT_MOST = "at most"


class Since(NamedTuple):
    """When a state began, at the latest or at the earliest."""

    time: str
    bound: Bound


def labelled(obj: DatedObject, label: str, but: Sequence[str] = ()) -> Since | None:
    """Return since when the object has the label; None if that is unknown.

    Writes of the clients `but` do not count.
    """
    times = [
        each.time
        for each in obj.metadata.managed_fields
        if each.time and each.manager not in but and f"f:{label}" in each.fields.metadata.labels
    ]
    return Since(min(times), Bound.AT_LEAST) if times else None


def created(obj: PartialObject) -> Since | None:
    """Return since when the object can be in any state."""
    time = obj.metadata.creation_timestamp
    return Since(time, Bound.AT_MOST) if time else None


def age(since: Since | None, now: datetime) -> str | None:
    """Return the age in a table: `13s` for at least that, `<13s` for at most that."""
    begin = None if since is None else parse_time(since.time)
    if since is None or begin is None:
        return None
    return ("<" if since.bound is Bound.AT_MOST else "") + short((now - begin).total_seconds())


def short(seconds: float) -> str:
    """Return a duration in its two largest units, such as `2m5s`, as kubectl shows ages."""
    whole = max(0, int(seconds))
    for (large, size), (small, part) in pairwise(_UNITS):
        if whole >= size:
            number, rest = divmod(whole, size)
            return f"{number}{large}{rest // part}{small}" if rest >= part else f"{number}{large}"
    return f"{whole}s"

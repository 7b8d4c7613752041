"""The fields of the configuration, and how each is decoded.

Every field is decoded on its own, so that one mistake does not hide the next.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from difflib import get_close_matches
from enum import EnumMeta
from functools import cache
from typing import Final, TypeAlias, get_args, get_origin

import msgspec

from sharder.config.settings import Settings
from sharder.core.api.meta import LabelSelector
from sharder.core.texts import parse_duration

Path: TypeAlias = tuple[str, ...]

MEANINGLESS: Final[tuple[Path, ...]] = (
    ("clientConnection", "acceptContentTypes"),
    ("clientConnection", "contentType"),
    ("clientConnection", "qps"),
    ("clientConnection", "burst"),
    ("debugging", "enableProfiling"),
    ("debugging", "enableContentionProfiling"),
    ("leaderElection", "resourceLock"),
)
"""Fields that have an effect only in the reference implementation."""


@cache
def fields() -> Mapping[Path, object]:
    """Return the type of every field by its path."""
    return dict(_leaves(Settings, ()))


@cache
def groups() -> frozenset[Path]:
    """Return the paths of all groups of fields."""
    return frozenset(path[:depth] for path in fields() for depth in range(1, len(path)))


def decode(path: Path, value: object, *, is_text: bool = False) -> object:
    """Return the value of the field, decoded as its type in `Settings`.

    As text, lists and mappings are YAML.

    Raises:
        ValueError: the value is invalid; the message does not name the field.
    """
    kind = fields()[path]
    if not is_text or not _is_collection(kind):
        return _convert(value, kind, strict=not is_text)
    try:
        return _convert(msgspec.yaml.decode(str(value)), kind, strict=True)
    except msgspec.DecodeError as error:
        raise ValueError(
            f"must be YAML such as [a, b] or {{key: value}}, but is {value!r}"
        ) from error


def resembling(name: str) -> str:
    """Return a hint at a field with a similar name, or an empty text."""
    known = [".".join(path) for path in (*fields(), *groups())]
    close = get_close_matches(name, known, n=1, cutoff=0.8)
    return f" (did you mean {close[0]}?)" if close else ""


def _leaves(group: type[msgspec.Struct], prefix: Path) -> Iterator[tuple[Path, object]]:
    for field in msgspec.structs.fields(group):
        path = (*prefix, field.encode_name)
        if _is_group(field.type):
            yield from _leaves(field.type, path)
        else:
            yield path, field.type


def _is_group(kind: object) -> bool:
    """Return whether the type is a group, not a selector, which replaces the whole default."""
    return (
        isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind is not LabelSelector
    )


def _is_collection(kind: object) -> bool:
    return kind is LabelSelector or get_origin(kind) in {dict, tuple}


def _convert(value: object, kind: object, *, strict: bool) -> object:
    if kind is timedelta:
        if not isinstance(value, str):
            raise ValueError(f"must be a duration such as 15s or 5m, but is {value!r}")
        return parse_duration(value)
    if kind is LabelSelector and isinstance(value, Mapping):
        _check_selector(value)
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise ValueError(_explain(kind, value, error)) from error


def _check_selector(value: Mapping[object, object]) -> None:
    """Reject unknown fields: a misspelt selector would select everything."""
    unknown = sorted(map(str, value.keys() - {"matchLabels", "matchExpressions"}))
    if unknown:
        raise ValueError(
            f"has only the fields matchLabels and matchExpressions, not {', '.join(unknown)}"
        )


def _explain(kind: object, value: object, error: msgspec.ValidationError) -> str:
    choices = [e for e in (kind, *get_args(kind)) if isinstance(e, EnumMeta)]
    if choices:
        return f"must be one of {', '.join(map(str, choices[0]))}, but is {value!r}"
    return f"{error} (it is {value!r})"

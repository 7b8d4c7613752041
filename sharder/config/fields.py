"""How a mapping becomes a group of settings.

Every field is decoded on its own, so that one mistake does not hide the next.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from enum import EnumMeta
from functools import cache
from typing import NamedTuple, TypeAlias, TypeGuard, TypeVar, get_args, get_origin

import msgspec

from sharder.config.settings import Settings
from sharder.core.api.meta import LabelSelector
from sharder.core.texts import parse_duration

Path: TypeAlias = tuple[str, ...]
Group = TypeVar("Group", bound=msgspec.Struct)


class Text(NamedTuple):
    """A value as text; lists and mappings are YAML."""

    source: str
    """The variable or the flag."""
    text: str


@cache
def fields(kind: type[msgspec.Struct] = Settings) -> Mapping[Path, object]:
    """Return the type of every field by its path."""
    found = dict[Path, object]()
    for each in msgspec.structs.fields(kind):
        below = fields(each.type) if _is_group(each.type) else {(): each.type}
        found |= {(each.encode_name, *path): of for path, of in below.items()}
    return found


@dataclass(frozen=True, slots=True)
class Decoder:
    """Decodes groups, and keeps what is wrong with them."""

    problems: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """One sentence for each unknown field."""

    def group(self, kind: type[Group], values: Mapping[object, object], prefix: str = "") -> Group:
        """Return the group; null and an empty text count as absent, as in the reference."""
        known = {each.encode_name: each for each in msgspec.structs.fields(kind)}
        decoded = dict[str, object]()
        for key, value in values.items():
            path, of = f"{prefix}{key}", known.get(str(key))
            if of is None:
                close = get_close_matches(path, [prefix + name for name in known], cutoff=0.8)
                hint = f" (did you mean {close[0]}?)" if close else ""
                self.unknown.append(f"{path}: unknown field{hint}")
            elif value is not None and value != "":
                try:
                    decoded[of.name] = self._value(of.type, value, path)
                except ValueError as error:
                    source = value.source if isinstance(value, Text) else path
                    self.problems.append(f"{source}: {error}")
        return kind(**decoded)

    def _value(self, kind: object, value: object, path: str) -> object:
        if not _is_group(kind):
            return _from_text(kind, value.text) if isinstance(value, Text) else _of(kind, value)
        if isinstance(value, Mapping):
            return self.group(kind, value, f"{path}.")
        raise ValueError(f"must be a mapping, but is {value!r}")


def _is_group(kind: object) -> TypeGuard[type[msgspec.Struct]]:
    """Return whether the type is a group, not a selector, which replaces the whole default."""
    return (
        isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind is not LabelSelector
    )


def _from_text(kind: object, text: str) -> object:
    if kind is not LabelSelector and get_origin(kind) not in {dict, tuple}:
        return _of(kind, text, strict=False)
    try:
        return _of(kind, msgspec.yaml.decode(text))
    except msgspec.DecodeError as error:
        raise ValueError(
            f"must be YAML such as [a, b] or {{key: value}}, but is {text!r}"
        ) from error


def _of(kind: object, value: object, *, strict: bool = True) -> object:
    """Return the decoded value; a ValueError says what is wrong, without the field."""
    if kind is timedelta:
        if not isinstance(value, str):
            raise ValueError(f"must be a duration such as 15s or 5m, but is {value!r}")
        return parse_duration(value)
    if kind is LabelSelector and isinstance(value, Mapping):
        # A misspelt selector would select everything.
        unknown = sorted(map(str, value.keys() - {"matchLabels", "matchExpressions"}))
        if unknown:
            fault = (
                f"has only the fields matchLabels and matchExpressions, not {', '.join(unknown)}"
            )
            raise ValueError(fault)
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise ValueError(_explain(kind, value, error)) from error


def _explain(kind: object, value: object, error: msgspec.ValidationError) -> str:
    choices = [e for e in (kind, *get_args(kind)) if isinstance(e, EnumMeta)]
    if choices:
        return f"must be one of {', '.join(map(str, choices[0]))}, but is {value!r}"
    return f"{error} (it is {value!r})"

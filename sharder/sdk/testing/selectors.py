"""Label and field selectors in their text form, compiled once."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

Matcher: TypeAlias = Callable[[Mapping[str, str]], bool]

_COMMA: Final = re.compile(r",(?![^(]*\))")
_SET: Final = re.compile(r"(\S+)\s+(in|notin)\s*\(([^)]*)\)")
_EQUALITY: Final = re.compile(r"([^\s=!]+)(?:\s*(==|=|!=)\s*(\S*))?")


@lru_cache(maxsize=4096)
def selector(text: str) -> Matcher:
    """Return whether labels, or fields, match the selector.

    Raises:
        ValueError: the text is no selector.
    """
    parts = [_requirement(part.strip()) for part in _COMMA.split(text) if part.strip()]
    if len(parts) == 1:
        return parts[0]
    return lambda labels: all(part(labels) for part in parts)


def keys(text: str) -> set[str]:
    """Return the fields of a field selector."""
    found = (_EQUALITY.fullmatch(part.strip()) for part in text.split(","))
    return {match[1] for match in found if match}


def _requirement(text: str) -> Matcher:
    if text.startswith("!"):
        absent = text[1:].strip()
        return lambda labels: absent not in labels
    if match := _SET.fullmatch(text):
        key, operator, values = match.groups()
        listed = frozenset(value.strip() for value in values.split(","))
        if operator == "in":
            return lambda labels: labels.get(key) in listed
        return lambda labels: labels.get(key) not in listed
    equality = _EQUALITY.fullmatch(text)
    if equality is None:
        raise ValueError(f"{text!r} is no selector")
    name, sign, value = equality.groups()
    if not sign:
        return lambda labels: name in labels
    if sign == "!=":
        return lambda labels: labels.get(name) != value
    return lambda labels: labels.get(name) == value

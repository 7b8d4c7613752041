"""Label and field selectors in their text form."""

import re
from collections.abc import Mapping

_COMMA = re.compile(r",(?![^(]*\))")
_SET = re.compile(r"(\S+)\s+(in|notin)\s*\(([^)]*)\)")
_EQUALITY = re.compile(r"([^\s=!]+)(?:\s*(==|=|!=)\s*(\S*))?")


def matches(selector: str, labels: Mapping[str, str]) -> bool:
    """Judge a label selector in its text form."""
    return all(_holds(part.strip(), labels) for part in _COMMA.split(selector) if part.strip())


def _holds(requirement: str, labels: Mapping[str, str]) -> bool:
    if requirement.startswith("!"):
        return requirement[1:].strip() not in labels
    if match := _SET.fullmatch(requirement):
        key, operator, values = match.groups()
        inside = labels.get(key) in {value.strip() for value in values.split(",")}
        return inside is (operator == "in")
    key, operator, value = _EQUALITY.fullmatch(requirement).groups()  # type: ignore[union-attr]
    if not operator:
        return key in labels
    return (labels.get(key) == value) is (operator != "!=")

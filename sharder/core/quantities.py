"""Kubernetes quantities as exact numbers: `4`, `500m`, `8Gi`, `1e3`.

Source: apimachinery, pkg/api/resource/quantity.go.  The parser of the Kubernetes client is not
used, because it would load the whole client into every process; a test compares the two.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

_QUANTITY: Final = re.compile(
    r"([0-9]{1,18}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})"
    r"([eE][+-]?[0-9]{1,2}|[A-Za-z]{0,2})"
)

_POWERS: Final = dict(
    zip(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), range(-9, 21, 3), strict=True)
)
"""Decimal suffixes, as powers of 10 (apimachinery v0.36.3, api/resource/suffix.go)."""

_BINARY: Final = dict(zip(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), range(1, 7), strict=True))
"""Binary suffixes, as powers of 1024."""

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_./-]{0,251}[A-Za-z0-9])?")

MAX_LENGTH: Final = 4096
"""Maximum characters of a list.  An annotation can have 256 KiB, and is parsed often."""

MAX_PARTS: Final = 32
"""Maximum resources in a list, far more than any ring compares."""

_SHOWN: Final = 40
"""Maximum characters of an invalid text that a message repeats."""


def quantity(text: str) -> Decimal:
    """Return the value of a quantity without a sign, exact to 28 digits.

    Raises:
        ValueError: `text` is not a quantity.
    """
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:_SHOWN]!r} is not a quantity such as 4, 500m or 8Gi")
    number, suffix = Decimal(found[1]), found[2]
    if suffix in _POWERS:
        return number.scaleb(_POWERS[suffix])
    if suffix in _BINARY:
        return number * Decimal(1024) ** _BINARY[suffix]
    if suffix[-1].isdecimal():
        return number.scaleb(int(suffix[1:]))
    raise ValueError(f"{text!r} has the unknown suffix {suffix!r}")


def plain(amount: Decimal) -> str:
    """Return a quantity's value as text without suffix, exponent or trailing zeros."""
    return f"{amount.normalize():f}"


def quantities(text: str) -> Mapping[str, Decimal]:
    """Return the amounts in a list such as `objects=6000,cpu=4,memory=8Gi`, by resource.

    Raises:
        ValueError: `text` is not such a list, or is too long; the message names the invalid part.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"a list of quantities has at most {MAX_LENGTH} characters")
    parts = text.split(",")
    if len(parts) > MAX_PARTS:
        raise ValueError(f"a list of quantities has at most {MAX_PARTS} parts")
    found: dict[str, Decimal] = {}
    for part in parts:
        name, equals, amount = (piece.strip() for piece in part.partition("="))
        if not equals or _NAME.fullmatch(name) is None:
            raise ValueError(f"{part.strip()[:_SHOWN]!r} is not of the form resource=quantity")
        if name in found:
            raise ValueError(f"{name!r} is listed twice")
        found[name] = quantity(amount)
    return found

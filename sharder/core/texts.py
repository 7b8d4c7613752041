"""Texts that people write and read: quantities, durations, addresses, numbers with their nouns.

Quantities and durations of Kubernetes are exact numbers: `500m`, `8Gi`, `1e3`; `15s`, `1h30m`.

Source: apimachinery, pkg/api/resource/quantity.go, and Go's time.ParseDuration, which
metav1.Duration uses.  The parser of the Kubernetes client is not used, because it would load the
whole client into every process; a test compares the two.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Final, NamedTuple

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


# In microseconds, the resolution of a timedelta.
_UNITS: Final = {
    "ns": Decimal("0.001"),
    "us": Decimal(1),
    "µs": Decimal(1),
    "μs": Decimal(1),
    "ms": Decimal(1000),
    "s": Decimal(1_000_000),
    "m": Decimal(60_000_000),
    "h": Decimal(3_600_000_000),
}
_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)")
_LIMIT: Final = Decimal(2**63 - 1) / 1000
"""The longest duration in Go (2^63 - 1 ns, 292 years), in microseconds."""


@lru_cache(maxsize=256)
def parse_duration(text: str) -> timedelta:
    """Return the duration in `text`, rounded to microseconds.

    Raises:
        ValueError: `text` is not a duration; Go rejects it too.
    """
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if digits == "0":
        return timedelta()
    parts = _PART.findall(digits)
    if not parts or "".join(number + unit for number, unit in parts) != digits:
        raise ValueError(f"{text!r} is not a duration such as 100ms, 15s, 5m or 1h30m")
    total = sum((Decimal(number) * _UNITS[unit] for number, unit in parts), Decimal())
    if total > _LIMIT:
        raise ValueError(f"{text!r} is longer than 292 years")
    return sign * timedelta(microseconds=int(total.to_integral_value(ROUND_HALF_UP)))


def parse_time(text: str) -> timedelta:
    """Return the duration in `text`; a number without a unit is in seconds.

    Raises:
        ValueError: `text` is neither a duration nor a number.
    """
    return parse_duration(f"{text}s" if _NUMBER.fullmatch(text) else text)


def counted(number: int, noun: str) -> str:
    """Return a text such as `1 object` or `2 objects`; the plural of the noun must end in s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def named(names: Sequence[str], most: int = 3) -> str:
    """Return a text such as `a, b, c and 4 more`, which names at most `most`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


class Address(NamedTuple):
    """Where to listen; an empty host means all interfaces."""

    host: str
    port: int


def address_of(bind_address: str) -> Address | None:
    """Parse a bindAddress; return None for `0`, which turns the server off.

    Raises:
        ValueError: the address is neither `0` nor `host:port`; IPv6 hosts need brackets.
    """
    if bind_address == "0":
        return None
    host, colon, port = bind_address.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    is_bracketed = host != bare and host == f"[{bare}]"
    is_number = port.isascii() and port.isdigit() and int(port) <= 65535
    if not colon or not is_number or (":" in bare) != is_bracketed:
        raise ValueError(f"{bind_address!r} is neither host:port nor 0")
    return Address(bare, int(port))

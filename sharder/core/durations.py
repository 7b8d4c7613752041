"""Durations as Go and Kubernetes write them: `15s`, `5m`, `1h30m`, `100ms`.

Source: Go's time.ParseDuration, which metav1.Duration uses.
"""

import re
from datetime import timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Final

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

"""What a check of vectors answers."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One case, and what is wrong with it.

    A case that has no meaning here has no problems either; its text then says why.
    """

    case: str
    problems: tuple[str, ...] = ()


def differences(expected: Mapping[str, object], actual: Mapping[str, object]) -> tuple[str, ...]:
    """Return a line per expected member that `actual` lacks or has another value for."""
    return tuple(
        f"{key}: expected {value!r}, got {actual.get(key, 'nothing')!r}"
        for key, value in expected.items()
        if actual.get(key, "nothing") != value
    )
